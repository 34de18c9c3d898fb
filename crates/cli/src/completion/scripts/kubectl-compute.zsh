#compdef kubectl-compute
# Completion of kubectl-compute for zsh: source <(kubectl-compute completion zsh)
_kubectl_compute() {
    local answer line files=0
    local -a candidates
    answer=$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null) || return
    for line in "${(@f)answer}"; do
        case $line in
        :0) files=1 ;;
        :*) ;;
        *$'\t'*) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        *) candidates+=("${line//:/\\:}") ;;
        esac
    done
    # The values of --flag=value have no flag before them.
    if [[ $PREFIX == --*=* ]]; then compset -P '*='; fi
    if (( files )); then
        _files
    elif (( $#candidates )); then
        _describe -V kubectl-compute candidates
    fi
}
compdef _kubectl_compute kubectl-compute
