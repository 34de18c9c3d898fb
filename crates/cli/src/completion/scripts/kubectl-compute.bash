# Completion of kubectl-compute for bash: source <(kubectl-compute completion bash)
_kubectl_compute() {
    local line=${COMP_LINE:0:COMP_POINT} answer candidate
    local -a words
    read -ra words <<<"$line"
    # The word that is being typed may be empty.
    if [[ $line == *[[:space:]] ]]; then words+=(""); fi
    answer=$("${words[0]}" __complete "${words[@]:1}" 2>/dev/null) || return
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in
        :0) compopt -o default ;;
        :*) ;;
        *=) compopt -o nospace && COMPREPLY+=("$candidate") ;;
        *) COMPREPLY+=("${candidate%%$'\t'*}") ;;
        esac
    done <<<"$answer"
}
complete -F _kubectl_compute kubectl-compute
