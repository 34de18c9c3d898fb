#!/usr/bin/env bash
# Prints a kubeconfig with which the gateway logs in to a plane: examples/credential.sh CONTEXT > FILE
#
# CONTEXT is the administrator's context of kubectl for a hub or a project that has the roles of manifests/. Its server
# address must be one that the gateway reaches as well. The user is ServiceAccount fedgate-system/fedgate-gateway of that
# plane, made here unless it is there; a second argument, fedgate-provisioner, names that of the provisioner. The token is valid for DURATION (8760h: a year), or for less if the server says so.
set -euo pipefail
context=${1:?which context? examples/credential.sh CONTEXT > FILE}
account=${2:-fedgate-gateway}
plane() { kubectl --context "$context" "$@"; }
cluster() { plane config view --minify --flatten --raw --output "jsonpath={.clusters[0].cluster.$1}"; }

server=$(cluster server)
authority=$(cluster certificate-authority-data)
: "${authority:?context $context names no certificate authority; give its cluster a certificate-authority}"

plane get namespace fedgate-system >/dev/null 2>&1 || plane create namespace fedgate-system >&2
plane --namespace fedgate-system get serviceaccount "$account" >/dev/null 2>&1 ||
  plane --namespace fedgate-system create serviceaccount "$account" >&2
token=$(plane --namespace fedgate-system create token "$account" --duration "${DURATION:-8760h}")

cat <<END
apiVersion: v1
kind: Config
current-context: $context
contexts: [{name: $context, context: {cluster: $context, user: $account}}]
clusters: [{name: $context, cluster: {server: "$server", certificate-authority-data: $authority}}]
users: [{name: $account, user: {token: $token}}]
END
