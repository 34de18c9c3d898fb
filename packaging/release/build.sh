#!/usr/bin/env bash
# Builds an executable so that its bytes depend on the commit and the toolchain alone, not on folders or time:
#   packaging/release/build.sh TARGET fedgate|kubectl-compute FOLDER
# TARGET is x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu. The executable is written to FOLDER.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The C library of Debian 12: executables run there and on anything newer.
GLIBC_FLOOR=2.36

revision() {
  git rev-parse --short=12 HEAD 2>/dev/null || echo unknown
}

# Paths of this machine would be in panic messages, and in assertions of C libraries.
set_environment() {
  local target=$1 cargo_home=${CARGO_HOME:-$HOME/.cargo} from
  export FEDGATE_REVISION=${FEDGATE_REVISION:-$(revision)}
  export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
  export CARGO_TARGET_DIR=$PWD/target/release-build
  export CARGO_INCREMENTAL=0 CFLAGS=""
  RUSTFLAGS=""
  for from in "$PWD=/fedgate" "$cargo_home=/cargo" "${RUSTUP_HOME:-$HOME/.rustup}=/rustup"; do
    RUSTFLAGS+=" --remap-path-prefix=$from"
    CFLAGS+=" -ffile-prefix-map=$from"
  done
  if [[ $target == x86_64-* ]]; then
    # Smaller executables. Relative relocations are packed, which glibc reads from 2.36 on. Functions with the same code are kept once:
    # a backtrace may name another function of the same code, and no program may compare addresses of functions. rust-lld, the
    # default linker for x86_64, has both options; GNU ld has no --icf.
    RUSTFLAGS+=" -Clink-arg=-Wl,-z,pack-relative-relocs -Clink-arg=-Wl,--icf=all"
  fi
  export RUSTFLAGS
  if [[ $target == aarch64-* ]]; then
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    # Pages of up to 64 KiB: kernels for aarch64 have them.
    export JEMALLOC_SYS_WITH_LG_PAGE=16
  fi
}

arguments_of() {
  case $1 in
    fedgate) echo "--package fedgate --bin fedgate --no-default-features --features checks,jemalloc" ;;
    kubectl-compute) echo "--package fedgate-cli --bin kubectl-compute" ;;
    *)
      echo "build.sh: there is no executable $1; next: fedgate or kubectl-compute" >&2
      return 2
      ;;
  esac
}

# A newer C library at build time may bind symbols that the floor lacks.
check_floor() {
  local needed
  # Packed relocations need glibc 2.36, which has a name of its own for them.
  needed=$(readelf -W --version-info "$1" | grep -oE 'GLIBC_(ABI_DT_RELR|[0-9.]+)' |
    sed 's/GLIBC_ABI_DT_RELR/2.36/; s/GLIBC_//' | sort -Vu | tail -n 1)
  if [[ $(printf '%s\n' "$needed" "$GLIBC_FLOOR" | sort -V | tail -n 1) != "$GLIBC_FLOOR" ]]; then
    echo "build.sh: $1 needs glibc $needed, newer than $GLIBC_FLOOR; next: build on Debian 12" >&2
    return 1
  fi
}

main() {
  local target=$1 program=$2 folder=$3 arguments
  read -ra arguments <<<"$(arguments_of "$program")"
  set_environment "$target"
  cargo build --release --locked --target "$target" "${arguments[@]}"
  mkdir -p "$folder"
  cp "$CARGO_TARGET_DIR/$target/release/$program" "$folder/$program"
  check_floor "$folder/$program"
}

main "$@"
