package main

import "github.com/spf13/cobra"

// newCommands lists every command, in the order in which help shows them.
func newCommands(p *process) []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(p),
		newCheckCommand(p),
		newMigrateCommand(p),
		newStatusCommand(p),
		newMonitorCommand(p),
		newCursorCommand(p),
		newConsumerCommand(p),
		newDeadLetterCommand(p),
		newReconcileCommand(p),
		newBackfillCommand(p),
		newReplayCommand(p),
		newSourceCommand(p),
		newDemoCommand(p),
		newVersionCommand(p),
	}
}
