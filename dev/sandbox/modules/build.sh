#!/usr/bin/env bash
# Builds programs from the pinned Go modules beside this script, once, and prints the path of each:
#   build.sh PROGRAM...
#   build.sh planes      all programs of the planes
#   build.sh prometheus-operator-definitions
#                        no program, but a folder in Go's module cache with a definition in each file
# They are kept in ${XDG_CACHE_HOME:-$HOME/.cache}/fedgate, outside the build directory that `cargo clean` empties. Another
# process that builds the same program is waited for. KUBEBUILDER_ASSETS may name a folder whose programs are taken instead.
# Progress goes to standard error.
set -euo pipefail
modules=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# No debugger looks at these programs.
FLAGS=(-trimpath -gcflags=all=-dwarf=false)
# The names under which the one executable of the planes is started.
PLANES=(etcd kube-apiserver plane-controllers pod-binder kwok)
# Seconds between two lines of a build that is at work.
REPORT_EVERY=10

say() {
  echo "$1" >&2
}

fail() {
  say "$program: $1"
  say "next: $2"
  exit 1
}

# Sets the module of a program, the package and build tags of what is built, and how long that takes on two cores.
describe() {
  program=$1 package=. tags='' executable=$1 lasts='half a minute'
  case $1 in
    etcd | kube-apiserver | plane-controllers | pod-binder | kwok)
      module=planes executable=planes lasts='about five minutes'
      ;;
    kubectl | kubeadm) module=kubectl package=k8s.io/kubernetes/cmd/$1 lasts='about a minute' ;;
    helm) module=helm package=helm.sh/helm/v4/cmd/helm lasts='two minutes' ;;
    # The tag leaves out the clients of cloud providers, because promtool discovers no targets here.
    promtool) module=promtool package=github.com/prometheus/prometheus/cmd/promtool tags=remove_all_sd lasts='a minute' ;;
    # The oldest Kubernetes that the definitions are for.
    definitions-check) module=definitions ;;
    *) fail 'no module builds a program of this name' "one of ${PLANES[*]} kubectl kubeadm helm promtool definitions-check" ;;
  esac
}

# Prints the cache folder of a module's programs. Its name has a hash of the module's sources and flags, so that changed sources
# are built separately.
folder_of() {
  local cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}} key
  if [[ -z $cache ]]; then
    fail 'neither XDG_CACHE_HOME nor HOME is set, so there is no place to keep a build' \
      'set HOME, or KUBEBUILDER_ASSETS to a folder with the executables'
  fi
  key=$({ echo "${FLAGS[*]}"; cat "$modules/$1"/go.* "$modules/$1"/*.go 2>/dev/null; } | sha256sum) || true
  echo "$cache/fedgate/$1/${key:0:16}"
}

# Variables of packages that the linker sets. Kubernetes has its version from its release scripts alone; a program without
# it calls itself v0.0.0, which no bound of a chart admits.
stamps() {
  local version numbers variable=k8s.io/component-base/version
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$modules/$module/go.mod")
  if [[ -n $version ]]; then
    IFS=. read -ra numbers <<<"${version#v}"
    echo " -X $variable.gitVersion=$version -X $variable.gitMajor=${numbers[0]} -X $variable.gitMinor=${numbers[1]}"
  fi
}

# Says how far `go build -v` is, which names each module that it downloads and each package that it compiles.
progress() {
  local line downloaded=0 compiled=0 reported=$SECONDS
  while read -r line; do
    echo "$line"
    if [[ $line == 'go: downloading '* ]]; then
      downloaded=$((downloaded + 1))
    else
      compiled=$((compiled + 1))
    fi
    if ((SECONDS - reported >= REPORT_EVERY)); then
      reported=$SECONDS
      say "$executable: $downloaded modules downloaded, $compiled packages compiled, $SECONDS s"
    fi
  done >"$folder/build.log"
}

build() {
  local name
  SECONDS=0
  command -v go >/dev/null || fail 'go is not on PATH' 'install Go (https://go.dev/dl), or set KUBEBUILDER_ASSETS'
  say "$executable: building ${names[*]} from Go modules, once; this takes ${lasts} on two cores"
  # The module stands alone, whatever the caller's settings say. GOGC makes the compiler collect less often and so faster.
  if ! CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly GOGC=400 go build -C "$modules/$module" -v "${FLAGS[@]}" -tags "$tags" \
    -ldflags="-s -w$(stamps)" -o "$folder/$executable.unfinished" "$package" 2>&1 | progress; then
    tail -n 12 "$folder/build.log" >&2
    fail "go build $package in $modules/$module failed or was interrupted" 'check the network, GOPROXY and the space in the cache folder'
  fi
  mv "$folder/$executable.unfinished" "$folder/$executable"
  for name in "${names[@]}"; do
    [[ $name == "$executable" ]] || ln -sf "$executable" "$folder/$name"
  done
  say "$executable: built in $SECONDS s, kept in $folder"
}

definitions() {
  local module=github.com/prometheus-operator/prometheus-operator
  program=$name
  cd "$modules/prometheus-operator"
  GOWORK=off GOFLAGS=-mod=readonly go mod download "$module" >&2 ||
    fail 'go mod download failed' 'install Go so that go is on PATH, and check the network and GOPROXY'
  GOWORK=off GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}/example/prometheus-operator-crd' "$module"
}

main() {
  local name
  [[ ${1-} != planes ]] || set -- "${PLANES[@]}"
  for name in "$@"; do
    if [[ $name == prometheus-operator-definitions ]]; then
      definitions
      continue
    fi
    describe "$name"
    folder=$(folder_of "$module")
    names=("$name")
    if [[ -f ${KUBEBUILDER_ASSETS:-/dev/null}/$name ]]; then
      echo "$KUBEBUILDER_ASSETS/$name"
      continue
    fi
    if [[ $module == planes ]]; then
      names=("${PLANES[@]}")
    fi
    if [[ ! -x $folder/$name ]]; then
      mkdir -p "$folder"
      exec 9>"$folder/$executable.lock"
      if ! flock --nonblock 9; then
        say "$executable: another process builds it; waiting"
        flock 9
      fi
      if [[ ! -x $folder/$name ]]; then
        build
      fi
      exec 9>&-
    fi
    echo "$folder/$name"
  done
}

main "$@"
