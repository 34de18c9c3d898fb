#!/usr/bin/env bash
# Says why the commit at HEAD cannot be released, a line each (contract: operations.md §8.2); silent if it can.
set -euo pipefail
cd "$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)"

SUITES=(lint verify console)

refused=0

refuse() {
  echo "release refused: $1; next: $2" >&2
  refused=1
}

check_tree() {
  local version=$1
  if [[ -n $(git status --porcelain) ]]; then
    refuse "the tree has changes that are not committed" "commit or remove them: git status"
  fi
  if ! git tag --points-at HEAD | grep -Fxq "v$version"; then
    refuse "HEAD has no tag v$version" "git tag v$version"
  fi
}

# The value of a key at the top level of a YAML file, without quotes.
top_level() {
  sed -n "s/^$2: *\"\{0,1\}\([^\"]*\)\"\{0,1\} *$/\1/p" "$1"
}

check_versions() {
  local version=$1 chart=charts/fedgate/Chart.yaml key found file
  if ! grep -Eq "^## \[?${version//./\\.}\]? - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md; then
    refuse "CHANGELOG.md has no heading \"## $version - <date>\"" "name the section Unreleased so, and begin a new one"
  fi
  if [[ -f $chart ]]; then
    for key in version appVersion; do
      found=$(top_level "$chart" "$key")
      if [[ $found != "$version" ]]; then
        refuse "$chart has $key ${found:-none}, Cargo.toml has $version" "make manifests"
      fi
    done
  else
    refuse "$chart is missing" "make manifests"
  fi
  for file in manifests/deploy/{gateway,cell}.yaml; do
    if ! grep -Eq "^ *image: fedgate:${version//./\\.}$" "$file"; then
      refuse "$file has no image fedgate:$version" "make manifests"
    fi
  done
}

check_suites() {
  local commit suite
  commit=$(git rev-parse HEAD)
  for suite in "${SUITES[@]}"; do
    if [[ ! -f target/passed/$commit/$suite ]]; then
      refuse "the suite $suite has not passed on this commit with a clean tree" "run it, and change nothing meanwhile"
    fi
  done
}

main() {
  local version
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
  check_tree "$version"
  check_versions "$version"
  check_suites
  return "$refused"
}

main
