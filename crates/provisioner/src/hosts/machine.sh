# The only program that the provisioner runs at a machine, as root. Its text never varies: the first line of standard input is a verb
# with the UID of the Cell, the name of the machine, and arguments; the rest is the content of a file. No part of the input is run.
# The answer has lines `key value`.
#
# No single quote may stand in this text, because the whole text is an argument in single quotes.
set -u
umask 077
export LC_ALL=C
# A prefix of all paths, for tests.
ROOT=${FEDGATE_ROOT:-}
DIR=$ROOT/etc/fedgate
KUBERNETES=$ROOT/etc/kubernetes
SOCKET=unix:///var/run/containerd/containerd.sock
export ROOT DIR KUBERNETES SOCKET

# Prints the shell script of a job.
job_text() {
  case $1 in
  prepare)
    cat <<"END"
set -e
for module in overlay br_netfilter; do modprobe "$module"; done
printf "overlay\nbr_netfilter\n" >"$ROOT/etc/modules-load.d/fedgate.conf"
printf "net.%s = 1\n" ipv4.ip_forward bridge.bridge-nf-call-iptables bridge.bridge-nf-call-ip6tables >"$ROOT/etc/sysctl.d/fedgate.conf"
chmod 644 "$ROOT/etc/modules-load.d/fedgate.conf" "$ROOT/etc/sysctl.d/fedgate.conf"
sysctl -p "$ROOT/etc/sysctl.d/fedgate.conf"
swapoff -a
systemctl mask swap.target
systemctl enable --now containerd
systemctl enable kubelet
END
    ;;
  balancer)
    cat <<"END"
set -e
haproxy -c -f "$DIR/haproxy.cfg"
unit=fedgate-haproxy.service
printf "%s\n" "[Unit]" "Description=HAProxy before the API servers of a fedgate Cell" "Wants=network-online.target" \
  "After=network-online.target" "[Service]" "Type=notify" "KillMode=mixed" "SuccessExitStatus=143" "ExecStart=$(command -v haproxy) -Ws -f $DIR/haproxy.cfg" "Restart=always" "[Install]" "WantedBy=multi-user.target" \
  >"$ROOT/etc/systemd/system/$unit"
chmod 644 "$ROOT/etc/systemd/system/$unit"
systemctl daemon-reload
systemctl enable "$unit"
systemctl restart "$unit"
systemctl is-active "$unit"
END
    ;;
  init) echo "kubeadm init --config \"\$DIR/init.yaml\" --skip-token-print --skip-certificate-key-print" ;;
  cni) echo "kubectl --kubeconfig \"\$KUBERNETES/admin.conf\" --cache-dir \"\$PWD/cache\" apply --server-side --field-manager fedgate -f \"\$DIR/cni.yaml\"" ;;
  certificates) echo "kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config \"\$DIR/certificates.yaml\"" ;;
  join)
    cat <<"END"
set -e
# An earlier join leaves files at which the next one would stop.
case $PWD in */join-1) ;; *) kubeadm reset --force --cri-socket "$SOCKET" ;; esac
kubeadm join --config "$DIR/join.yaml"
END
    ;;
  reset)
    cat <<"END"
set -e
kubeadm reset --force --cri-socket "$SOCKET"
systemctl unmask swap.target
unit=$ROOT/etc/systemd/system/fedgate-haproxy.service
if [ -e "$unit" ]; then
  systemctl disable --now fedgate-haproxy.service
  rm -f "$unit"
  systemctl daemon-reload
fi
rm -f "$ROOT/etc/modules-load.d/fedgate.conf" "$ROOT/etc/sysctl.d/fedgate.conf"
END
    ;;
  *) exit 64 ;;
  esac
}

# Start time of a process. It tells the process of a job from a later one with the same number.
start_time() {
  [ -r "/proc/$1/stat" ] && sed "s/^.*) //" "/proc/$1/stat" | cut -d " " -f 20
}

# Seconds since a file was written; very many if the clock was set back since.
age() {
  a=$(($(date +%s) - $(stat -c %Y "$1" || echo 0)))
  [ "$a" -ge 0 ] && echo "$a" || echo 999999
}

# Prints the state of a job: the number of its last start, the state, and its age in seconds.
job_state() {
  n=0
  for j in "$DIR/jobs/$1"-*; do
    case ${j##*-} in *[!0-9]*) continue ;; esac
    [ "${j##*-}" -le "$n" ] || n=${j##*-}
  done
  [ "$n" -gt 0 ] || return 0
  j=$DIR/jobs/$1-$n
  if [ -s "$j/rc" ]; then
    echo "job $1 $n ended $(age "$j/rc") $(cat "$j/rc")"
    [ "$(cat "$j/rc")" = 0 ] || printf "error %s %s\n" "$1" "$(sed "s/\[preflight\] If you know.*//" "$j/err" | grep -a -v -e "^[[:space:]]*.WARNING" -e "^To see the stack" | tail -n 40 | tail -c 4096 | tr -s "\000-\037" " ")"
  elif [ -s "$j/pid" ] && read -r pid start <"$j/pid" && [ "$(start_time "$pid")" = "$start" ]; then
    echo "job $1 $n runs $(age "$j")"
  elif [ ! -s "$j/pid" ] && [ "$(age "$j")" -lt 30 ]; then
    echo "job $1 $n runs $(age "$j")"
  else
    echo "job $1 $n died $(age "$j")"
  fi
}

# Starts a job, once for each number. The job runs on when the SSH connection ends. Its exit status is in the file rc.
start_job() {
  j=$DIR/jobs/$1-$2
  mkdir -p "$DIR/jobs" || exit
  [ ! -d "$j" ] || return 0
  mkdir "$j" || exit
  [ "$2" -le 3 ] || rm -rf "$DIR/jobs/$1-$(($2 - 3))"
  job_text "$1" >"$j/text" || exit 64
  cat >"$j/run" <<"END"
cd "$(dirname "$0")" || exit
echo "$$ $(sed "s/^.*) //" /proc/$$/stat | cut -d " " -f 20)" >pid.new && mv pid.new pid || exit
sh text >out 2>err </dev/null
echo $? >rc.new && mv rc.new rc
END
  setsid sh "$j/run" >/dev/null 2>&1 </dev/null &
}

# Waits some seconds for the end of a job, so that most jobs need one connection.
wait_for_job() {
  i=0
  while [ ! -s "$DIR/jobs/$1-$2/rc" ] && [ $i -lt 16 ]; do
    sleep 0.5
    i=$((i + 1))
  done
  job_state "$1"
}

look() {
  [ ! -e "$DIR/claim.json" ] || printf "claim %s\n" "$(head -c 4096 "$DIR/claim.json" | tr "\n" " ")"
  for file in kubelet.conf admin.conf; do
    [ ! -e "$KUBERNETES/$file" ] || echo "kubernetes $file"
  done
  # The package of the kubelet leaves a hidden file in manifests.
  [ -z "$(ls -d "$KUBERNETES"/manifests/*.yaml "$ROOT/var/lib/etcd/member" 2>/dev/null)" ] || echo "kubernetes begun"
  echo "kubeadm $(kubeadm version -o short 2>/dev/null)"
  echo "kubelet $(kubelet --version 2>/dev/null | sed "s/^.* //")"
  for program in containerd kubectl haproxy; do
    command -v "$program" >/dev/null && echo "program $program"
  done
  for name in prepare balancer init cni certificates join reset; do job_state "$name"; done
}

# A delayed command may arrive after another Cell has claimed the machine.
check_claim() {
  for part in "\"uid\":\"$uid\"" "\"machine\":\"$machine\""; do
    grep -qF "$part" "$DIR/claim.json" || exit 78
  done
}

read -r verb uid machine name number || exit 64
case ${number:-0} in *[!0-9]*) exit 64 ;; esac
[ "$(id -u)" = 0 ] || exit 77
case $verb in
look | claim) ;;
*) check_claim ;;
esac
case $verb in
look) look ;;
claim)
  # ln fails if the file exists, so that only one of two Cells gets the machine.
  if mkdir -p "$DIR" && cat >"$DIR/claim.new-$$" && [ -s "$DIR/claim.new-$$" ] && sync "$DIR/claim.new-$$"; then
    ln "$DIR/claim.new-$$" "$DIR/claim.json" 2>/dev/null
  fi
  rm -f "$DIR/claim.new-$$"
  look
  ;;
put)
  case $name in haproxy.cfg | init.yaml | cni.yaml | certificates.yaml | join.yaml | discovery.conf) ;; *) exit 64 ;; esac
  new=$DIR/$name.new-$$
  cat >"$new"
  # A connection that breaks ends the content early.
  if [ "$(wc -c <"$new")" -ne "$number" ]; then
    rm -f "$new"
    exit 74
  fi
  check_claim
  mv "$new" "$DIR/$name" || exit
  ;;
start)
  start_job "$name" "$number"
  wait_for_job "$name" "$number"
  ;;
admin) echo "admin $(base64 -w 0 "$KUBERNETES/admin.conf")" ;;
stop)
  for j in "$DIR"/jobs/*; do
    case $j in */reset-*) continue ;; esac
    if [ -s "$j/pid" ] && [ ! -e "$j/rc" ] && read -r pid start <"$j/pid" && [ "$(start_time "$pid")" = "$start" ]; then
      kill -KILL "-$pid"
    fi
  done
  look
  ;;
forget)
  # The claim is deleted last, because the machine may be changed only while the claim exists.
  for file in haproxy.cfg init.yaml cni.yaml certificates.yaml join.yaml discovery.conf; do
    rm -f "$DIR/$file" "$DIR/$file".new-* || exit
  done
  rm -rf "$DIR/jobs" || exit
  rm -f "$DIR"/claim.new-* "$DIR/claim.json" || exit
  rmdir "$DIR" 2>/dev/null
  echo "forgotten yes"
  ;;
*) exit 64 ;;
esac
