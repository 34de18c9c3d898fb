#!/usr/bin/env bash
# A tenant's day with fedgate, on a hub, two projects and three cells of this machine: a Workload runs, gets a new image without a
# gap, fails and is fixed, is scaled, restarted, suspended and moved, and outlives the loss of a cell; then all of it is deleted, and
# nothing is left. Each step is checked.
#
# `make demo` builds the executables and runs this. Lines of its output that begin with $ can be typed. KEEP=1 leaves everything
# running; else the sandbox ends with the script. BIN is the folder of the executables, FEDGATE_SANDBOX_DIR that of the sandbox.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_NUMERIC=C
export FEDGATE_SANDBOX_DIR=${FEDGATE_SANDBOX_DIR:-$PWD/target/sandbox}
export KUBECACHEDIR=$FEDGATE_SANDBOX_DIR/cache
kubectl=$(dev/sandbox/modules/build.sh kubectl)
export PATH=$(realpath "${BIN:-target/debug}"):$(dirname "$kubectl"):$PATH

CELLS=(dfw-1 dfw-2 lhr-1)
PLANES=(hub alpha beta "${CELLS[@]}")
IMAGE=docker.io/library/nginx:1.29
# The placement of each Pod, whether it is ready, and since when it is being deleted.
READINESS='{range .items[*]}{.metadata.labels.compute\.datumapis\.com/placement-name} {.status.conditions[?(@.type=="Ready")].status};{.metadata.deletionTimestamp}{"\n"}{end}'
OF_WORKLOAD=compute.datumapis.com/workload-name=storefront
# KWOK, which plays the cells' Pods, pulls no image with this word.
BAD_IMAGE=docker.io/library/nginx:broken
# Far more than two busy cores need: a new kind takes real Karmada six seconds.
LIMIT=120
logs=$FEDGATE_SANDBOX_DIR/logs
journal=$logs/demo-journal.log
declare -A roles=()

# --- How steps are printed and checked ---

fail() {
  echo "the demonstration failed: $1" >&2
  exit 1
}

# The seconds since the step began.
passed() {
  local milliseconds=$(((${EPOCHREALTIME/./} - began) / 1000))
  printf '%d.%03d s' $((milliseconds / 1000)) $((milliseconds % 1000))
}

step() {
  local name
  for name in "${!roles[@]}"; do
    kill -0 "${roles[$name]}" 2>/dev/null || fail "$name has ended by itself; its log is $logs/$name.log"
  done
  began=${EPOCHREALTIME/./}
  since=$(date -u +%T.%3N)
  printf '\n== %s %s\n' "$since" "$1"
}

say() {
  echo "   after $(passed): $1"
}

# Prints a command as it can be typed.
typed() {
  local word line='   $'
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=,@%-]+$ ]] || word="'$word'"
    line+=" $word"
  done
  echo "$line"
}

# Types a command, which has to end with this exit code.
ends_with() {
  local code=$1 status=0
  shift
  typed "$@"
  timeout "$LIMIT" "$@" </dev/null 2>&1 | sed --unbuffered 's/^/     /' || status=$?
  ((status == code)) || fail "$* ended with exit code $status, not with $code"
}

run() {
  ends_with 0 "$@"
}

# Waits until something comes about: kubectl watches for it, for one --for at a time.
await() {
  local word wanted=() of=()
  for word; do
    case $word in
      --for=*) wanted+=("$word") ;;
      *) of+=("$word") ;;
    esac
  done
  for word in "${wanted[@]}"; do
    await_one "${of[@]}" "$word"
  done
}

# Waits for one --for of some objects. `kubectl wait` fails if an object is absent, for example while it is deleted and made anew;
# with --for=create it waits for one absent object, and fails if several are absent. Then this asks again.
await_one() {
  local deadline=$((SECONDS + LIMIT)) said
  until said=$(kubectl wait "$@" --timeout="${LIMIT}s" 2>&1); do
    ((SECONDS < deadline)) && [[ $said == *NotFound* || $said == *'not found'* ]] || fail "kubectl wait $* failed: $said"
    sleep 0.2
  done
}

# Waits until a condition of an object in the project has this reason.
says() {
  await "$1" --for=jsonpath="{.status.conditions[?(@.type==\"$2\")].reason}=$3"
}

# A command has to print this.
prints() {
  local wanted=$1 printed
  shift
  printed=$("$@") || fail "$* failed"
  [[ $printed == "$wanted" ]] || fail "$* printed '$printed', not '$wanted'"
}

# --- What is looked at on the planes ---

# Waits until the Workload has exactly these Instances in the project, all of them ready with an address, and counts them.
runs() {
  local count=$# others
  await "${@/#/instance/}" --for=create --for=jsonpath="{.spec.runtime.sandbox.containers[0].image}=$IMAGE" \
    --for=condition=Ready --for=jsonpath='{.status.networkInterfaces[0].assignments.networkIP}'
  await workload/storefront --for=jsonpath="{.status.readyReplicas}=$count" --for=jsonpath="{.status.replicas}=$count" \
    --for=jsonpath="{.status.desiredReplicas}=$count"
  # An Instance that a rollout replaces can remain for a moment after the status of the Workload has stopped counting it.
  mapfile -t others < <(comm -23 <(instances | sort) <(printf 'instance/%s\n' "$@" | sort))
  ((${#others[@]} == 0)) || LIMIT=10 await "${others[@]}" --for=delete
  prints "$(printf 'instance/%s\n' "$@")" instances
  say "Workload storefront counts $count of $count Instances as ready: $*"
}

# Prints instance/NAME for each Instance of the Workload in the project.
instances() {
  kubectl get instances --selector "$OF_WORKLOAD" --output 'jsonpath={range .items[*]}instance/{.metadata.name}{"\n"}{end}'
}

# kubectl in the namespace that belongs to the tenant's on the hub and at cells.
at() {
  kubectl --context "$1" --namespace "$namespace" "${@:2}"
}

# The cell that runs a deployment.
cell_of() {
  at hub get resourcebinding "$1-workloaddeployment" --output 'jsonpath={.spec.clusters[*].name}'
}

# A deployment has exactly these Pods at a cell.
has_pods() {
  local cell=$1 deployment=$2
  shift 2
  prints "$*" at "$cell" get pods --selector "compute.datumapis.com/workload-deployment-name=$deployment" \
    --output 'jsonpath={.items[*].metadata.name}'
}

# The identities of all Instances at the cells: a new Instance of the same name has another.
identities() {
  local cell
  for cell in "${CELLS[@]}"; do
    at "$cell" get instances --output 'jsonpath={range .items[*]}{.metadata.uid}{"\n"}{end}'
  done | sort
}

# The kinds of a plane, but for those that Kubernetes and the gateway write whatever a tenant does.
kinds() {
  kubectl --context "$1" api-resources --verbs=list --output name |
    grep -Ev '^(events|leases|componentstatuses|endpointslices)(\.|$)' | paste -sd,
}

objects() {
  kubectl --context "$1" get "$(kinds "$1")" --all-namespaces --no-headers \
    --output custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name 2> >(grep -v ^Warning: >&2) |
    awk -v plane="$1" '{ print plane, $1, $2, $3 }'
}

# Writes every object on every plane into a file: plane, kind, namespace, name.
inventory() {
  local plane pids=() pid
  for plane in "${PLANES[@]}"; do
    objects "$plane" >"$1.$plane" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || fail 'the objects of a plane cannot be listed'
  done
  sort "$1".* >"$1"
}

# Asks the cells all the time whether each of these placements has a ready Pod, and prints a line for each answer. LHR comes first,
# so that what leaves it between two questions is found in DFW.
client() {
  local placement cell answer
  while :; do
    answer=
    for cell in lhr-1 dfw-1 dfw-2; do
      answer+=$(at "$cell" get pods --request-timeout 5s --selector "$OF_WORKLOAD" --output "jsonpath=$READINESS" 2>/dev/null || true)
      answer+=$'\n'
    done
    for placement; do
      [[ $answer == *"$placement True;"$'\n'* ]] || answer=closed
    done
    [[ $answer == closed ]] && echo closed || echo open
  done
}

client_starts() {
  asked="$*"
  client "$@" <"$FEDGATE_SANDBOX_DIR/processes.lock" >"$logs/demo-client" &
  client=$!
}

client_ends() {
  kill "$client"
  wait "$client" || true
  client=
  ! grep -q closed "$logs/demo-client" || fail "the client has found no ready Pod of a placement; it asked for $asked"
  (($(wc -l <"$logs/demo-client") >= 5)) || fail 'the client has hardly asked'
  say "a client has asked $(wc -l <"$logs/demo-client") times for Pods of $asked, and has found ready ones each time"
}

# --- The times between planes ---

# The seconds since the step began until the journal first has an object in a state; "!" before it: not in that state.
seen() {
  awk -v since="$since" -v plane="$1" -v object="$2" -v state="$3" '
    function seconds(time, part) { split(time, part, ":"); return part[1] * 3600 + part[2] * 60 + part[3] }
    { name = $3 " " $4; sub(/:$/, "", name) }
    $2 == plane && name == object && (state ~ /^!/ ? $0 !~ substr(state, 2) : $0 ~ state) {
      printf "%.3f", (seconds($1) - seconds(since) + 86400) % 86400
      found = 1
      exit
    }
    END { if (!found) printf "-" }' "$journal"
}

# When each step on the way from the tenant to running Instances and back was seen.
hops() {
  local title plane object named state way cell deployment instance
  local dfw
  dfw=$(cell_of storefront-us-dfw)
  local ways=("$dfw storefront-us-dfw storefront-us-dfw-0" "$dfw storefront-us-dfw storefront-us-dfw-1"
    'lhr-1 storefront-eu-lhr storefront-eu-lhr-0')
  printf '\n%-49s' "seconds since the tenant's action, for Instance"
  printf '  %s' "${ways[@]##* }"
  while IFS='|' read -r title plane object state; do
    printf '\n%-49s' "$title"
    for way in "${ways[@]}"; do
      read -r cell deployment instance <<<"$way"
      named=${object/DEPLOYMENT/$deployment}
      printf '  %*s' ${#instance} "$(seen "${plane/CELL/$cell}" "${named/INSTANCE/$instance}" "$state")"
    done
  done <<'END'
project  Workload|alpha|Workload storefront|
project  WorkloadDeployment of the city|alpha|WorkloadDeployment DEPLOYMENT|
hub      ConfigMap|hub|ConfigMap web-settings|
hub      Secret|hub|Secret web-db|
hub      WorkloadDeployment|hub|WorkloadDeployment DEPLOYMENT|
cell     WorkloadDeployment|CELL|WorkloadDeployment DEPLOYMENT|
cell     ConfigMap|CELL|ConfigMap web-settings|
cell     Secret|CELL|Secret web-db|
cell     Instance|CELL|Instance INSTANCE|
cell     its network is ready|CELL|Instance INSTANCE|!Network
cell     its quota is granted|CELL|Instance INSTANCE|QuotaGranted=True
cell     no gate is left|CELL|Instance INSTANCE|!waits for
cell     Pod|CELL|Pod INSTANCE|
cell     Pod is Ready|CELL|Pod INSTANCE|Ready=True
cell     Instance is Ready|CELL|Instance INSTANCE|Ready=True
hub      Instance is Ready|hub|Instance INSTANCE|Ready=True
project  Instance is Ready|alpha|Instance INSTANCE|Ready=True
END
  echo
}

# --- Start and end ---

# Starts a role of fedgate. Its standard input is a file of the sandbox, by which `fedgate-sandbox down` finds and ends it.
role() {
  local name=$1
  shift
  typed fedgate "$@"
  setsid fedgate "$@" <"$FEDGATE_SANDBOX_DIR/processes.lock" >"$logs/$name.log" 2>&1 &
  roles[$name]=$!
  disown
}

# Kills what the sandbox runs of a cell, the API server first. `fedgate cell` goes on without an API server.
crash() {
  local status cell program state pid
  programs=()
  status=$(fedgate-sandbox status) || fail 'fedgate-sandbox status failed'
  while read -r cell program state pid _; do
    [[ $cell == "$1" && $state == running ]] || continue
    pid=$(pgrep --parent "$pid") || fail "$program of cell $1 has ended by itself"
    mapfile -d '' -t "crashed_${#programs[@]}" <"/proc/$pid/cmdline"
    programs+=("$program")
    kill -KILL "$pid" || fail "$program of cell $1 has ended by itself"
  done <<<"$status"
  [[ ${programs[0]-} == kube-apiserver ]] || fail "cell $1 has no running API server"
  say "cell $1 is dead: ${programs[*]}"
}

# Starts the programs that were killed; the API server is the first of them.
restart() {
  local number log deadline=$((SECONDS + LIMIT))
  for number in "${!programs[@]}"; do
    local -n crashed=crashed_$number
    log=$logs/$1-${programs[$number]}-restarted.log
    setsid "${crashed[@]}" <"$FEDGATE_SANDBOX_DIR/processes.lock" >>"$log" 2>&1 &
    disown
    # The others need the API server, which comes first; kubectl waits for no server.
    ((number == 0)) || continue
    until kubectl --context "$1" get --raw /readyz >/dev/null 2>&1; do
      ((SECONDS < deadline)) || fail "the API server does not come back; its log is $log"
      sleep 0.2
    done
  done
}

# Shows where it stopped, and keeps all objects.
report() {
  local name plane dump=$logs/demo-failure.txt
  for name in "${!roles[@]}"; do
    printf '\nend of %s:\n' "$logs/$name.log"
    tail -n 15 "$logs/$name.log"
  done
  for plane in "${PLANES[@]}"; do
    printf '\n######## plane %s\n' "$plane"
    kubectl --context "$plane" get "$(kinds "$plane" | sed 's/,secrets,/,/')" --all-namespaces --output yaml || true
  done >"$dump" 2>&1
  printf '\nevery change in its order (what came last is where it stopped): %s\nall objects: %s\n' "$journal" "$dump"
}

finish() {
  local status=$?
  trap - EXIT
  if [[ -n ${watch-} ]]; then kill "$watch" 2>/dev/null || true; fi
  if [[ -n ${client-} ]]; then kill "$client" 2>/dev/null || true; fi
  if ((status)) && [[ -n ${start-} ]]; then report || true; fi
  if ((status)) || [[ -z ${KEEP-} ]]; then
    printf '\n== The sandbox ends\n'
    fedgate-sandbox down
  fi
}

how_to_use() {
  cat <<END

== The sandbox, the gateway and the cells keep running
export PATH='$PATH' KUBECONFIG='$KUBECONFIG' FEDGATE_SANDBOX_DIR='$FEDGATE_SANDBOX_DIR'
kubectl --context alpha apply -f examples/storefront-settings.yaml
kubectl compute --context alpha deploy -f examples/storefront.yaml
kubectl compute --context alpha trace storefront
kubectl --context hub get workloaddeployments,propagationpolicies --all-namespaces
kubectl --context dfw-1 get instances,pods --all-namespaces
fedgate console --server $gateway     # the operator's view, in a browser
fedgate-sandbox status     # planes, processes, logs
fedgate-sandbox down       # ends everything
END
}

if fedgate-sandbox status >/dev/null 2>&1; then
  fail "a sandbox runs in $FEDGATE_SANDBOX_DIR; next: make down"
fi
trap finish EXIT
trap 'exit 130' INT TERM
up=(fedgate-sandbox up --cell dfw-1=DFW --cell dfw-2=DFW --cell lhr-1=LHR)
typed "${up[@]}"
"${up[@]}" >/dev/null
echo '   $ eval "$(fedgate-sandbox env)"'
eval "$(fedgate-sandbox env)"
rm -rf "$KUBECACHEDIR"

start=$SECONDS
step 'Gateway and cells start, each as a user of its own, under the roles of manifests/'
# Ports of this run alone, below those that the sandbox takes.
port=$((10000 + $$ % 9000))
gateway=http://127.0.0.1:$port
# These times are minutes in production.
role gateway gateway --admin-address "127.0.0.1:$port" --city-linger 1s --unused-city-set-after 1s \
  --hub-namespace-retention 1s --orphan-after 1s --sweep-interval 5s --cell-lost-after 3s
for cell in "${CELLS[@]}"; do
  port=$((port + 1))
  files=$FEDGATE_SANDBOX_DIR/kubeconfigs
  role "$cell-cell" cell --admin-address "127.0.0.1:$port" --name "$cell" --networking true \
    --cell-kubeconfig "$files/cell-$cell/$cell.yaml" --hub-kubeconfig "$files/cell-$cell/hub.yaml" \
    --quota-directory "$files/quota-$cell"
done
await --context hub --for=create resourceinterpretercustomization/workloaddeployment
for cell in "${CELLS[@]}"; do
  await --context "$cell" --namespace fedgate-system --for=create lease/fedgate-cell
done
say 'the gateway has applied its interpreters, and each cell has its Lease'
inventory "$logs/demo-before"
run kubectl config use-context alpha
run kubectl config set-context alpha --namespace shop
run kubectl create namespace shop
namespace=ns-$(kubectl get namespace shop --output 'jsonpath={.metadata.uid}')
places=(alpha/shop "hub/$namespace" "${CELLS[@]/%//$namespace}")
typed fedgate-sandbox watch "${places[@]}"
exec 3< <(exec fedgate-sandbox watch "${places[@]}" <"$FEDGATE_SANDBOX_DIR/processes.lock")
watch=$!
# The first line says that all objects have been listed.
read -r -u 3 -t "$LIMIT" || fail 'fedgate-sandbox watch printed nothing'
tee "$journal" <&3 | grep --line-buffered -E '^[0-9:.]+ (alpha +Instance|(dfw|lhr)-[12] +Pod) ' &
exec 3<&-
echo "   (below: what the tenant sees of Instances, and the cells' Pods; every change on every plane: $journal)"

# --- The story ---

step '1. A tenant deploys examples/storefront.yaml: two Instances in DFW, one in LHR'
run kubectl apply -f examples/storefront-settings.yaml
run kubectl compute deploy -f examples/storefront.yaml
runs storefront-eu-lhr-0 storefront-us-dfw-0 storefront-us-dfw-1
hops
run kubectl compute status storefront
run kubectl compute instances --workload storefront
run kubectl compute trace storefront

step '2. A new image: a client that asks all the time finds a ready Pod of each placement each time'
IMAGE=docker.io/library/nginx:1.30
client_starts us eu
run kubectl compute deploy storefront --image "$IMAGE"
runs storefront-eu-lhr-0 storefront-us-dfw-0 storefront-us-dfw-1
client_ends

step '3. The tenant deploys an image that nobody can pull; the command says what blocks it'
identities >"$logs/demo-identities"
client_starts us eu
ends_with 9 kubectl compute deploy storefront --image "$BAD_IMAGE" --stall-timeout 2s
says instance/storefront-us-dfw-2 Ready ImageUnavailable
says instance/storefront-eu-lhr-1 Ready ImageUnavailable
prints '' comm -23 "$logs/demo-identities" <(identities)
say 'so it stays: the Instances with the image before still serve, and are not replaced'
ends_with 9 kubectl compute trace storefront --stuck-after 3s

step '4. The tenant goes back to the revision before'
run kubectl compute rollout history storefront
run kubectl compute rollout undo storefront --yes
runs storefront-eu-lhr-0 storefront-us-dfw-0 storefront-us-dfw-1
client_ends

step '5. The tenant scales placement us from 2 to 3'
run kubectl compute scale storefront --placement us --min 3
runs storefront-eu-lhr-0 storefront-us-dfw-0 storefront-us-dfw-1 storefront-us-dfw-2
dfw=$(cell_of storefront-us-dfw)
has_pods "$dfw" storefront-us-dfw storefront-us-dfw-0 storefront-us-dfw-1 storefront-us-dfw-2
step 'then to 1'
run kubectl compute scale storefront --placement us --min 1
await --for=delete instance/storefront-us-dfw-1 instance/storefront-us-dfw-2
await --context "$dfw" --namespace "$namespace" --for=delete pod/storefront-us-dfw-1 pod/storefront-us-dfw-2
runs storefront-eu-lhr-0 storefront-us-dfw-0
has_pods "$dfw" storefront-us-dfw storefront-us-dfw-0

step '6. The tenant restarts it: each Instance is replaced'
identities >"$logs/demo-identities"
run kubectl compute restart storefront
runs storefront-eu-lhr-0 storefront-us-dfw-0
prints '' comm -12 "$logs/demo-identities" <(identities)

step '7. The tenant suspends storefront-us-dfw, by annotation: its Pod goes, its Instance stays'
identities >"$logs/demo-identities"
run kubectl annotate workloaddeployment storefront-us-dfw compute.datumapis.com/suspended=true
says instance/storefront-us-dfw-0 Ready Suspended
says workloaddeployment/storefront-us-dfw Available Suspended
await --context "$dfw" --namespace "$namespace" --for=delete pod/storefront-us-dfw-0
has_pods "$dfw" storefront-us-dfw
step 'and resumes it: the same Instance has a new Pod'
run kubectl annotate workloaddeployment storefront-us-dfw compute.datumapis.com/suspended-
await --context "$dfw" --namespace "$namespace" --for=create pod/storefront-us-dfw-0
runs storefront-eu-lhr-0 storefront-us-dfw-0
has_pods "$dfw" storefront-us-dfw storefront-us-dfw-0
prints "$(cat "$logs/demo-identities")" identities

# Waits until the deployment without a Workload runs at a cell of a city, and nowhere else.
kiosk_runs() {
  local home=$1 city=$2 cell
  local place='{.metadata.labels.compute\.datumapis\.com/city-code}'
  await instance/kiosk-0 --for=create --for=jsonpath="$place=$city" --for=condition=Ready
  for cell in "${CELLS[@]}"; do
    [[ $cell != "$home" ]] || continue
    await --context "$cell" --namespace "$namespace" --for=delete workloaddeployment/kiosk instance/kiosk-0 pod/kiosk-0
    has_pods "$cell" kiosk
  done
  await --context "$home" --namespace "$namespace" --for=create --for=condition=Ready pod/kiosk-0
  prints "$city True" kubectl get instance kiosk-0 \
    --output "jsonpath=$place {.status.conditions[?(@.type==\"Ready\")].status}"
  has_pods "$home" kiosk kiosk-0
  say "kiosk-0 is Ready in $city at cell $home, and the other cells have nothing of it"
}

step '8. The tenant applies examples/kiosk.yaml, a deployment without a Workload, in DFW'
run kubectl apply -f examples/kiosk.yaml
await instance/kiosk-0 --for=create --for=condition=Ready
home=$(cell_of kiosk)
[[ $home == dfw-* ]] || fail "the deployment kiosk runs at $home"
kiosk_runs "$home" DFW
step 'and changes its city to LHR: it moves, with one patch on the hub'
run kubectl patch workloaddeployment kiosk --type=merge --patch '{"spec":{"cityCode":"LHR"}}'
kiosk_runs lhr-1 LHR

step '9. A cell in DFW is lost: its API server and what runs its Pods are killed; its deployment goes on at the city'\''s other cell'
dfw=$(cell_of storefront-us-dfw)
client_starts eu
crash "$dfw"
other=dfw-1
[[ $dfw != dfw-1 ]] || other=dfw-2
# Karmada notices the loss after 30 to 80 s, the stand-in after 3 s.
LIMIT=300 await --context "$other" --namespace "$namespace" --for=create --for=condition=Ready pod/storefront-us-dfw-0
LIMIT=300 await --context hub --namespace "$namespace" instance/storefront-us-dfw-0 \
  --for=jsonpath="{.metadata.labels.fedgate\.dev/cell}=$other"
await workloaddeployment/storefront-us-dfw --for=jsonpath='{.status.conditions[?(@.type=="Federated")].reason}=Delivered'
prints "$other" cell_of storefront-us-dfw
say "storefront-us-dfw-0 runs at cell $other, with its name"
runs storefront-eu-lhr-0 storefront-us-dfw-0
client_ends
run fedgate cells list --hub-kubeconfig "$KUBECONFIG" --hub-context hub
step 'and when it is back, it loses what has moved'
restart "$dfw"
LIMIT=300 await --context "$dfw" --namespace "$namespace" --for=delete workloaddeployment/storefront-us-dfw pod/storefront-us-dfw-0
has_pods "$dfw" storefront-us-dfw
has_pods "$other" storefront-us-dfw storefront-us-dfw-0

step '10. The tenant moves placement eu from LHR to DFW: the Instance in LHR stays until that in DFW is ready'
client_starts us eu
run kubectl compute deploy storefront --placement eu --city DFW --yes
await --for=delete instance/storefront-eu-lhr-0
await --context lhr-1 --namespace "$namespace" --for=delete workloaddeployment/storefront-eu-lhr pod/storefront-eu-lhr-0
runs storefront-eu-dfw-0 storefront-us-dfw-0
has_pods lhr-1 storefront-eu-lhr
client_ends
run kubectl get workloaddeployments,instances

step '11. The operator looks: fedgate status, and the way of the Workload until it is whole'
run fedgate status --server "$gateway"
run fedgate trace alpha shop/storefront --watch --server "$gateway"

step '12. The tenant deletes everything, and the namespace'
run kubectl compute destroy storefront --yes
run kubectl delete workloaddeployment kiosk
run kubectl delete namespace shop
say 'project alpha has no Workload, deployment and Instance'
for plane in "${CELLS[@]}" hub; do
  await --context "$plane" --for=delete "namespace/$namespace"
  say "plane $plane has the tenant's namespace no longer"
done

step 'Is anything left? Every object of every kind on every plane is compared'
inventory "$logs/demo-after"
left=$(comm -13 "$logs/demo-before" "$logs/demo-after")
if [[ -n $left ]]; then
  # Works, for example, outlive their bindings by a moment.
  while read -r plane kind of name; do
    kubectl --context "$plane" --namespace "$of" wait --timeout=30s --for=delete "$kind/$name" >/dev/null || true
  done <<<"$left"
  inventory "$logs/demo-after"
  left=$(comm -13 "$logs/demo-before" "$logs/demo-after")
fi
[[ -z $left ]] || fail "left behind:
$left"
step "Nothing is left: the ${#PLANES[@]} planes hold the same $(wc -l <"$logs/demo-before") objects as before"
kubectl config set-context alpha --namespace default >/dev/null
printf '\nAll of it has happened as it should, in %d s.\n' $((SECONDS - start))
if [[ -n ${KEEP-} ]]; then how_to_use; fi
