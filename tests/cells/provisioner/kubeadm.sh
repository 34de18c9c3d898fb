#!/bin/sh
# A double of kubeadm. Real kubeadm validates each configuration, makes the certificates, and runs the phases that need only an API server,
# which the sandbox has. No kubelet runs: this script creates the Node, and KWOK (a simulator of Nodes) makes it Ready.
set -eu
echo "kubeadm $*" >>"$MACHINE/calls"
K=$FEDGATE_ROOT/etc/kubernetes

ask() {
  "$KUBECTL" --kubeconfig "$ADMIN" "$@"
}

node() {
  ask get node "$1" >/dev/null 2>&1 || echo "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"$1\"}}" | ask create -f -
  # Real kubeadm marks a control plane last.
  [ ! -e "$K/manifests/kube-apiserver.yaml" ] || ask label node "$1" node-role.kubernetes.io/control-plane=
}

# The argument after --config.
configuration() {
  while [ "$1" != --config ]; do shift; done
  echo "$2"
}

# The text of a field of a configuration.
field() {
  sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p" "$1" | head -n 1
}

# The configuration with its paths below the folder of the machine.
moved() {
  sed "s|\"kind\":\"ClusterConfiguration\"|&,\"certificatesDir\":\"$K/pki\"|; s|\"kubeConfigPath\":\"|&$FEDGATE_ROOT|" "$1" \
    >"$MACHINE/moved.yaml"
  echo "$MACHINE/moved.yaml"
}

joined() {
  mkdir -p "$K"
  echo joined >"$K/kubelet.conf"
  node "$(field "$1" name)"
}

case "$1 ${2-} ${3-}" in
"version -o short") cat "$MACHINE/version" ;;
"init phase upload-certs")
  file=$(configuration "$@")
  "$KUBEADM" config validate --config "$file"
  field "$file" certificateKey >>"$MACHINE/keys"
  "$KUBEADM" init phase upload-certs --upload-certs --skip-certificate-key-print --config "$(moved "$file")" --kubeconfig "$ADMIN"
  ;;
"init --config "*)
  file=$(configuration "$@")
  "$KUBEADM" config validate --config "$file"
  case $(cat "$MACHINE/fail-init" 2>/dev/null) in
  early)
    echo "the disk is full" >&2
    exit 1
    ;;
  halfway)
    mkdir -p "$K/manifests"
    echo half >"$K/manifests/etcd.yaml"
    echo "etcd does not start" >&2
    exit 1
    ;;
  esac
  while [ -e "$MACHINE/hold-init" ]; do sleep 0.1; done
  "$KUBEADM" init phase certs all --config "$(moved "$file")"
  mkdir -p "$K/manifests"
  echo whole >"$K/manifests/kube-apiserver.yaml"
  "$KUBEADM" init phase upload-config kubeadm --config "$(moved "$file")" --kubeconfig "$ADMIN"
  "$KUBEADM" init phase bootstrap-token --skip-token-print --config "$(moved "$file")" --kubeconfig "$ADMIN"
  cp "$ADMIN" "$K/admin.conf"
  joined "$file"
  ;;
"join --config "*)
  file=$(configuration "$@")
  "$KUBEADM" config validate --config "$(moved "$file")"
  token=$(field "$file" tlsBootstrapToken)
  # Real kubeadm leaves ca.crt after a join that failed, and refuses to join while the file exists.
  [ ! -e "$K/pki/ca.crt" ] || { echo "[ERROR FileAvailable--etc-kubernetes-pki-ca.crt]" >&2; exit 1; }
  mkdir -p "$K/pki"
  echo an authority >"$K/pki/ca.crt"
  # Real kubeadm makes no second Node of a name.
  name=$(field "$file" name)
  ready=$(ask get node "$name" --ignore-not-found -o "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}")
  [ "$ready" != True ] || { echo "a Node with name $name and status Ready already exists in the cluster" >&2; exit 1; }
  case $(cat "$MACHINE/fail-join" 2>/dev/null) in
  early)
    echo "cannot join with $token" >&2
    exit 1
    ;;
  late)
    node "$name"
    ask wait --for=condition=Ready "node/$name" --timeout=60s
    address=$(sed -n 's/.*"name":"node-ip","value":"\([^"]*\)".*/\1/p' "$file" | head -n 1)
    ask patch node "$name" --subresource=status --type=merge -p "{\"status\": {\"addresses\": [{\"type\": \"InternalIP\", \"address\": \"$address\"}]}}"
    exit 1
    ;;
  esac
  grep -q certificate-authority-data "$FEDGATE_ROOT$(field "$file" kubeConfigPath)"
  # As a real API server does, which knows a token by its Secret.
  secret=$(ask -n kube-system get secret "bootstrap-token-${token%.*}" -o "jsonpath={.data.token-secret}" | base64 -d)
  [ "$secret" = "${token#*.}" ]
  if grep -q '"controlPlane"' "$file"; then
    key=$(field "$file" certificateKey)
    ask -n kube-system get secret kubeadm-certs >/dev/null
    echo "$key" >>"$MACHINE/keys"
    mkdir -p "$K/manifests"
    echo whole >"$K/manifests/kube-apiserver.yaml"
  fi
  joined "$file"
  ;;
"reset --force "*)
  rm -rf "$K"/*.conf "$K/pki" "$K"/manifests/* "$FEDGATE_ROOT/var/lib/etcd"
  ;;
*)
  echo "kubeadm: no test calls $*" >&2
  exit 64
  ;;
esac
