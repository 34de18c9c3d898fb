#!/usr/bin/env bash
# Runs parts of the tests, some beside each other, and says how each went:
#   tests/run.sh test            what every commit must pass; the README's test command
#   tests/run.sh verify PART...  parts whole, with the tests that `test` leaves out; all parts if none is named
# The output of a part is in target/tests/PART.log.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

: "${CARGO:=cargo}"
# Errors of tests name their place, and a backtrace would bury it.
export RUST_BACKTRACE=0
LOGS=target/tests
# All parts of `verify`, with about how long each takes alone on two cores.
declare -A MINUTES=([unit]=6 [demo]=2 [e2e]=20 [cells]=9 [platform]=5 [prove]=10 [mutants]=6 [memory]=5 [chaos]=2)

# Built before a part runs, because a compiler beside the suites would cost them their time limits. Parts `memory` and `mutants`
# compile more while they run.
LONG=(--test demo --test e2e --test cells --test platform --test prove --test mutants --test chaos)
# Parts without real planes run under `nice`, because tests on real planes have time limits.
command_of() {
  local part=$1 whole=(-- --include-ignored)
  [[ $mode == verify ]] || whole=()
  case $part in
    unit) COMMAND=(nice "$CARGO" test --workspace --no-fail-fast "${whole[@]}") ;;
    prove) COMMAND=(nice "$CARGO" test --workspace --test prove "${whole[@]}") ;;
    mutants) COMMAND=(nice "$CARGO" test --workspace --test mutants) ;;
    memory) COMMAND=(nice make memory) ;;
    demo) COMMAND=("$CARGO" test --workspace --test demo) ;;
    # The long run is `make chaos`.
    chaos) COMMAND=(env "FEDGATE_CHAOS_SECONDS=20" "$CARGO" test --workspace --test chaos) ;;
    e2e | cells | platform) COMMAND=("$CARGO" test --workspace --test "$part" "${whole[@]}") ;;
    *)
      echo "run.sh: there is no part $part; next: one of ${!MINUTES[*]}" >&2
      exit 2
      ;;
  esac
}

# Runs parts one after the other; a part that failed shows its output.
lane() {
  local part began status=0
  for part in "$@"; do
    command_of "$part"
    began=$SECONDS
    if "${COMMAND[@]}" >"$LOGS/$part.log" 2>&1; then
      echo "  $part: passed in $((SECONDS - began)) s"
      echo "$part $((SECONDS - began))" >>"$LOGS/times"
    else
      status=1
      cat "$LOGS/$part.log"
      echo "  $part: FAILED after $((SECONDS - began)) s, see above; output in $LOGS/$part.log"
    fi
  done
  return "$status"
}

build() {
  local planes status=0
  echo "Building the tests with cargo, and beside it the planes' programs with Go if they are not in the cache."
  echo "From empty caches this takes about sixteen minutes on two cores; after a change one or two."
  # The demo types kubectl.
  { dev/sandbox/modules/build.sh planes && dev/sandbox/modules/build.sh kubectl; } >/dev/null &
  planes=$!
  { "$CARGO" test --workspace --no-run && "$CARGO" test --workspace --no-run "${LONG[@]}"; } 2>&1 |
    { grep --line-buffered -v '^  Executable ' || true; } || status=1
  wait "$planes" || status=1
  if [[ $status != 0 ]]; then
    return 1
  fi
  if [[ $mode == verify ]]; then
    # Crashes at every second to fifth request, and all seeds.
    export FEDGATE_PROVE_WHOLE=1
    # Builds helm, promtool and definitions-check for the part that calls them.
    local part tools=()
    for part in "$@"; do
      case $part in
        unit) tools+=(helm promtool definitions-check) ;;
        cells)
          tools+=(kubectl kubeadm)
          install_sshd
          ;;
      esac
    done
    nice dev/sandbox/modules/build.sh "${tools[@]}" >/dev/null || return
  fi
  echo "Built in $SECONDS s."
}

# The SSH server of the machines in part `cells`. Without it their tests say that they were not run.
install_sshd() {
  if [[ ! -x /usr/sbin/sshd && $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "Installing openssh-server, with which tests make machines."
    { apt-get update && apt-get install --yes --no-install-recommends openssh-server; } >"$LOGS/sshd-install.txt" 2>&1 || true
  fi
}

# The tests that passed, and the time of each part, in one line.
summary() {
  cat "$LOGS"/*.log | awk -v seconds="$SECONDS" -v times="$(tr '\n' ',' <"$LOGS/times" | sed 's/,$//; s/,/, /g')" -v mode="$mode" '
    /^test result: (ok|FAILED)/ || /^[0-9]: test result: (ok|FAILED)/ { sub(/^[0-9]: /, ""); passed += $4; left += $8 }
    /NOT RUN: .* needs KARMADA_BIN_DIR/ { karmada += 1; next }
    /NOT RUN: / { print }
    END {
      printf "make %s: %d tests passed, none failed", mode, passed
      if (karmada) printf ", %d were skipped: they need KARMADA_BIN_DIR", karmada
      if (mode == "test") printf ", %d are left to make verify", left
      printf "; %d min %d s (%s)\n", seconds / 60, seconds % 60, times
    }'
}

main() {
  mode=${1-}
  if [[ $mode != verify && ! ($mode == test && $# == 1) ]]; then
    echo 'usage: tests/run.sh test | verify [PART...]' >&2
    exit 2
  fi
  shift
  local lanes status=0 pids=() pid parts=("$@")
  if [[ $mode == test ]]; then
    # The demo, and a core of each suite on real planes, which mostly wait; and beside them what computes.
    lanes=('demo e2e cells platform' 'prove unit')
  elif ((${#parts[@]})); then
    lanes=("${parts[*]}")
  else
    # As above: what waits for real planes, and beside it what computes.
    lanes=('e2e cells platform demo' 'prove unit mutants memory')
  fi
  for part in ${lanes[*]}; do
    command_of "$part"
  done
  mkdir -p "$LOGS"
  rm -f "$LOGS"/*.log "$LOGS/times"
  touch "$LOGS/times"
  # The words of a lane are its parts.
  # shellcheck disable=SC2068
  if ! build ${lanes[@]}; then
    echo "make $mode: the build failed"
    exit 1
  fi
  for part in ${lanes[*]}; do
    [[ $mode == verify ]] && echo "  $part: about ${MINUTES[$part]} min alone; output in $LOGS/$part.log"
  done
  for parts in "${lanes[@]}"; do
    # The words of a lane are its parts.
    # shellcheck disable=SC2086
    lane $parts &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || status=1
  done
  if [[ $status == 0 && $mode == verify && $# == 0 ]]; then
    # Chaos runs last and alone, because it stops processes under load.
    lane chaos || status=1
  fi
  if [[ $status == 0 ]]; then
    summary
  else
    echo "make $mode: FAILED, see above"
  fi
  return "$status"
}

main "$@"
