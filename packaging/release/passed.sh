#!/usr/bin/env bash
# Notes that a suite has passed on a commit, for packaging/release/check.sh:
#   packaging/release/passed.sh begin SUITE   before the suite
#   packaging/release/passed.sh end SUITE     after it
# target/passed/<commit>/SUITE is written only if the tree was clean, and at the same commit, before and after.
set -euo pipefail
cd "$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel 2>/dev/null || echo "$(dirname "${BASH_SOURCE[0]}")/../..")"

# The commit, or nothing: outside of git and with changes in the tree, a run proves nothing of a commit.
clean_commit() {
  local changes commit
  changes=$(git status --porcelain 2>/dev/null) && commit=$(git rev-parse --verify --quiet HEAD) || return 0
  if [[ -z $changes ]]; then
    echo "$commit"
  fi
}

main() {
  local phase=$1 suite=$2 begun=target/passed/begun/$2 commit
  commit=$(clean_commit)
  case $phase in
    begin)
      mkdir -p target/passed/begun
      rm -f "target/passed/${commit:-none}/$suite"
      echo "$commit" >"$begun"
      ;;
    end)
      if [[ -n $commit && -f $begun && $commit == "$(<"$begun")" ]]; then
        mkdir -p "target/passed/$commit"
        touch "target/passed/$commit/$suite"
      fi
      rm -f "$begun"
      ;;
    *)
      echo "passed.sh: $phase is neither begin nor end" >&2
      return 2
      ;;
  esac
}

main "$@"
