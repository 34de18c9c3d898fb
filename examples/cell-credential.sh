#!/usr/bin/env bash
# Prints the kubeconfig with which a cell logs in to the hub: examples/cell-credential.sh HUB-CONTEXT CLUSTER > FILE
#
# HUB-CONTEXT is the administrator's context of kubectl for the hub, whose server address the cell must reach as well. CLUSTER
# is the name of the cell's Karmada Cluster. The key never leaves this machine but in the kubeconfig. The certificate is valid
# for DAYS (365), or for less if the hub says so; it cannot be revoked, but without its Cluster the cell may write nothing.
set -euo pipefail
context=${1:?which hub? examples/cell-credential.sh HUB-CONTEXT CLUSTER > FILE}
cluster=${2:?which cell? examples/cell-credential.sh HUB-CONTEXT CLUSTER > FILE}
hub() { kubectl --context "$context" "$@"; }
field() { hub config view --minify --flatten --raw --output "jsonpath={.clusters[0].cluster.$1}"; }

server=$(field server)
authority=$(field certificate-authority-data)
: "${authority:?context $context names no certificate authority; give its cluster a certificate-authority}"
hub get clusters.cluster.karmada.io "$cluster" >/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
openssl req -new -newkey rsa:2048 -nodes -keyout "$work/key" -subj "/O=fedgate-cells/CN=fedgate-cell-$cluster" -out "$work/csr" 2>/dev/null
name=fedgate-cell-$cluster-$(openssl dgst -sha256 -r "$work/csr" | cut -c1-8)
hub apply -f - >&2 <<END
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: $name}
spec:
  signerName: kubernetes.io/kube-apiserver-client
  expirationSeconds: $((${DAYS:-365} * 86400))
  usages: [client auth]
  request: $(base64 -w0 "$work/csr")
END
hub certificate approve "$name" >&2
for _ in $(seq 30); do
  certificate=$(hub get csr "$name" --output 'jsonpath={.status.certificate}')
  [ -n "$certificate" ] && break
  sleep 1
done
: "${certificate:?the hub has not signed $name; its kube-controller-manager needs the controller csrsigning}"

cat <<END
apiVersion: v1
kind: Config
current-context: hub
contexts: [{name: hub, context: {cluster: hub, user: fedgate-cell-$cluster}}]
clusters: [{name: hub, cluster: {server: "$server", certificate-authority-data: $authority}}]
users: [{name: fedgate-cell-$cluster, user: {client-certificate-data: $certificate, client-key-data: $(base64 -w0 "$work/key")}}]
END
