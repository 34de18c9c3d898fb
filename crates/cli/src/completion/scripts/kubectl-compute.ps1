# Completion of kubectl-compute for PowerShell: kubectl-compute completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName kubectl-compute -ScriptBlock {
    param($typed, $line, $cursor)
    $words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    # The word that is being typed may be empty.
    if ($typed -eq '') { $words += '' }
    $flag = if ($typed -match '^(--[^=]*=)') { $Matches[1] } else { '' }
    & kubectl-compute __complete @words 2>$null | Where-Object { $_ -notmatch '^:' } | ForEach-Object {
        $word, $meaning = $_ -split "`t", 2
        if (-not $meaning) { $meaning = $word }
        [System.Management.Automation.CompletionResult]::new("$flag$word", $word, 'ParameterValue', $meaning)
    }
}
