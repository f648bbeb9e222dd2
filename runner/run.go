package runner

import "context"

// Run takes a hold, runs the command under it and gives it back. When it returns
// the command is gone, and whatever else the class says holds.
func Run(ctx context.Context, o Options) Result { panic("not written yet") }
