#!/bin/sh
# A double of the programs of a machine that need a kernel of their own, or rights that a test may lack. It writes each call down.
name=${0##*/}
echo "$name $*" >>"$MACHINE/calls"
case $name in
id) echo 0 ;;
sudo)
  # sudo -n COMMAND...
  [ ! -e "$MACHINE/without-sudo" ] || { echo "sudo: a password is required" >&2; exit 1; }
  shift
  exec "$@"
  ;;
kubelet) echo "Kubernetes $(cat "$MACHINE/version")" ;;
haproxy) [ ! -e "$MACHINE/refuse-haproxy" ] || { echo "[ALERT] the configuration is refused" >&2; exit 1; } ;;
modprobe) [ ! -e "$MACHINE/refuse-modprobe" ] || { echo "modprobe: FATAL: $* not found" >&2; exit 1; } ;;
esac
