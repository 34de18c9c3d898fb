#!/usr/bin/env bash
# Writes target/release-<version>/ (contract: operations.md §8.2), if packaging/release/check.sh finds nothing against it.
set -euo pipefail
cd "$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)"

HERE=packaging/release
PROGRAMS=(fedgate kubectl-compute)
TARGETS=(x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu)
SHELLS=(bash zsh fish powershell)
CYCLONEDX=0.5.9

say() {
  echo "release: $1" >&2
}

# A tar archive of a folder whose bytes depend on names and contents alone.
archive() {
  local file=$1 parent=$2 folder=$3
  tar --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode='u+rw,go+r,go-w' -C "$parent" -cf - "$folder" | gzip -n9 >"$file"
}

build_programs() {
  local target program
  for target in "${TARGETS[@]}"; do
    for program in "${PROGRAMS[@]}"; do
      say "building $program for $target"
      "$HERE/build.sh" "$target" "$program" "$OUT/$target"
    done
  done
}

# Sets COMMAND to the words that start a program of a target; qemu plays another processor.
set_command() {
  local target=$1 program=$2
  COMMAND=("$OUT/$target/$program")
  if [[ $target != "$(uname -m)-"* ]]; then
    COMMAND=("qemu-${target%%-*}-static" -L "/usr/${target%%-*}-linux-gnu" "${COMMAND[@]}")
  fi
}

run() {
  set_command "$1" "$2"
  "${COMMAND[@]}" "${@:3}"
}

smoke() {
  local target program
  for target in "${TARGETS[@]}"; do
    say "starting the executables for $target"
    for program in "${PROGRAMS[@]}"; do
      if ! run "$target" "$program" --version | grep -F " $VERSION ($FEDGATE_REVISION)"; then
        say "$program for $target says another version or revision than $VERSION ($FEDGATE_REVISION)"
        return 1
      fi
    done
    run "$target" kubectl-compute completion bash >/dev/null
    run "$target" fedgate manifests --check manifests
    run "$target" fedgate kinds test interpreters
    scrape "$target"
  done
}

# A gateway whose hub does not answer runs, and answers a scrape.
scrape() {
  local target=$1 folder=$WORK/scrape port=18080 gateway
  mkdir -p "$folder/projects"
  cat >"$folder/hub.yaml" <<'YAML'
apiVersion: v1
kind: Config
clusters: [{name: hub, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: gateway, user: {token: none}}]
contexts: [{name: hub, context: {cluster: hub, user: gateway}}]
current-context: hub
YAML
  chmod 600 "$folder/hub.yaml"
  set_command "$target" fedgate
  # Not by `run`: the process of a function in the background is a shell, whose end leaves the gateway behind.
  "${COMMAND[@]}" gateway --hub-kubeconfig "$folder/hub.yaml" --development-allow-http \
    --project-mode directory --project-directory "$folder/projects" --admin-address "127.0.0.1:$port" \
    2>"$folder/log" &
  gateway=$!
  if ! curl --silent --show-error --fail --retry 30 --retry-connrefused --retry-delay 1 \
    "http://127.0.0.1:$port/metrics" | grep '^fedgate_build_info' >/dev/null; then
    kill "$gateway"
    say "fedgate for $target answers no scrape: $(tail -n 3 "$folder/log")"
    return 1
  fi
  kill "$gateway"
  wait "$gateway" || true
}

completions() {
  local shell
  mkdir -p "$OUT/completions"
  for shell in "${SHELLS[@]}"; do
    run "$(uname -m)-unknown-linux-gnu" kubectl-compute completion "$shell" >"$OUT/completions/kubectl-compute.$shell"
  done
}

manifests() {
  archive "$OUT/manifests.tar.gz" . manifests
  cp manifests/monitoring/alerts.yaml manifests/monitoring/dashboard.json "$OUT/"
}

# FEDGATE_HELM, the Helm that the sandbox has built, or that of PATH.
helm() {
  local built=("${XDG_CACHE_HOME:-$HOME/.cache}"/fedgate/*/bin/helm) program
  program=${FEDGATE_HELM:-}
  if [[ -z $program && -x ${built[-1]} ]]; then
    program=${built[-1]}
  fi
  program=${program:-$(type -P helm || true)}
  if [[ -z $program ]]; then
    say "there is no Helm; next: set FEDGATE_HELM, or run cargo test --test install, which builds one"
    return 1
  fi
  "$program" "$@"
}

# Helm checks the chart, but its archive has the time of its making.
chart() {
  local name=fedgate-$VERSION.tgz work=$WORK/chart
  mkdir -p "$work/unpacked" "$OUT/charts"
  helm package charts/fedgate --destination "$work"
  tar -xzf "$work/$name" -C "$work/unpacked"
  archive "$OUT/charts/$name" "$work/unpacked" fedgate
}

# A bill of materials for each executable: the crates that are linked into it. It is made in a copy, whose folders get files.
materials() {
  local tools=$PWD/target/tools source=$WORK/source target
  if ! "$tools/bin/cargo-cyclonedx" cyclonedx --version 2>/dev/null | grep -qw "$CYCLONEDX"; then
    cargo install cargo-cyclonedx --version "$CYCLONEDX" --locked --root "$tools"
  fi
  mkdir -p "$source"
  git archive HEAD | tar -x -C "$source"
  for target in "${TARGETS[@]}"; do
    (
      cd "$source"
      "$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --target "$target" --override-filename kubectl-compute \
        --manifest-path crates/cli/Cargo.toml
      "$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --target "$target" --override-filename fedgate \
        --no-default-features --features checks
    )
    # References of the project's own crates have their folder.
    sed "s|$source|/fedgate|g" "$source/crates/cli/kubectl-compute.json" >"$OUT/$target/kubectl-compute.cdx.json"
    sed "s|$source|/fedgate|g" "$source/fedgate.json" >"$OUT/$target/fedgate.cdx.json"
  done
}

# The crates that are linked into a package, and the licence of each.
crates_of() {
  local target=$1 package=$2
  shift 2
  cargo tree --locked --package "$package" "$@" --edges normal --target "$target" --prefix none --format '{p}|{l}' |
    sed '/^$/d; s/ (\*)//; s/ (proc-macro)//'
}

# Licence texts of the crates that are linked, and a list of all with their licence.
licences() {
  local folder=$WORK/licences target crate version licence source file
  mkdir -p "$folder"
  cp LICENSE "$OUT/"
  for target in "${TARGETS[@]}"; do
    crates_of "$target" fedgate --no-default-features --features checks
    crates_of "$target" fedgate-cli
  done | LC_ALL=C sort -u >"$WORK/crates"
  while IFS='| ' read -r crate version licence; do
    printf '%s %s: %s\n' "$crate" "${version#v}" "${licence#*|}"
    for source in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate-${version#v}"; do
      for file in "$source"/{LICEN[CS]E,COPYING,NOTICE}*; do
        if [[ -f $file ]]; then
          mkdir -p "$folder/$crate-${version#v}"
          cp "$file" "$folder/$crate-${version#v}/"
        fi
      done
    done
  done <"$WORK/crates" >"$folder/CRATES"
  archive "$OUT/licences.tar.gz" "$WORK" licences
}

sums() {
  (cd "$OUT" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
}

# The standard library of a target is a part of the toolchain that may be missing: that is said before anything is built.
check_targets() {
  local target
  for target in "${TARGETS[@]}"; do
    if [[ ! -d $(rustc --print target-libdir --target "$target") ]]; then
      say "the toolchain has no standard library for $target; next: rustup target add $target"
      return 1
    fi
  done
}

main() {
  "$HERE/check.sh"
  check_targets
  VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  FEDGATE_REVISION=$(git rev-parse --short=12 HEAD)
  export SOURCE_DATE_EPOCH FEDGATE_REVISION
  OUT=$PWD/target/release-$VERSION
  WORK=$PWD/target/release-work
  rm -rf "$OUT" "$WORK"
  mkdir -p "$OUT" "$WORK"
  build_programs
  smoke
  completions
  manifests
  chart
  materials
  licences
  sums
  say "written to $OUT"
}

main
