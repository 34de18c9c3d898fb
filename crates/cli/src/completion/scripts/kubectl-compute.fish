# Completion of kubectl-compute for fish: kubectl-compute completion fish | source
function __kubectl_compute_complete
    set -l typed (commandline -ct)
    set -l words (commandline -opc) "$typed"
    set -l answer (kubectl-compute __complete $words[2..-1] 2>/dev/null)
    set -l flag (string match -r -- '^--[^=]*=' "$typed")
    if test "$answer[-1]" = ":0"
        __fish_complete_path (string replace -r -- '^--[^=]*=' '' "$typed")
    end
    for candidate in (string match -v -- ':*' $answer)
        # fish wants the whole word.
        printf '%s%s\n' "$flag" "$candidate"
    end
end
complete -c kubectl-compute -f -a '(__kubectl_compute_complete)'
