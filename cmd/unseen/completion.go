package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	choices := strings.Join(shells, ", ")
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands and flags in your shell",
		Long: fmt.Sprintf(`Print a script that makes the Tab key complete unseen's commands and flags.
SHELL is one of %s; bash also needs the
package bash-completion.`, choices),
		Example: `  source <(unseen completion bash)      # in this shell; or put it in ~/.bashrc
  unseen completion zsh > "${fpath[1]}/_unseen"
  unseen completion fish > ~/.config/fish/completions/unseen.fish
  unseen completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one shell: %s; for instance unseen completion bash", choices)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usagef("no completion for %q; name one shell: %s", args[0], choices)
		},
	}
}
