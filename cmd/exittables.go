package cmd

// exitTables are the exit codes of the commands, by their man pages, for these and the help.
var exitTables = map[string][][2]string{
	"flockd-run": exitCodes,
	"flockd-status": {
		{"0", "it was shown; with -q, KEY is free; with --max-age, young enough"},
		{"1", "with -q: KEY is held or cooling, or somebody is in line"},
		{"2", "with --max-age: the last success is older"},
		{"3", "with --max-age: no success is known, or the store could not be reached or refused"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-list": {{"0", "they were listed, be it none"}, unavailableExit, usageExit, faultExit},
	"flockd-break": {
		{"0", "whoever it was has been asked, or with --wait is gone"},
		{"1", "nobody was there to be asked, or the answer was no"},
		{"75", "with --wait: whoever was asked is still there"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-once-list": {{"0", "they were listed, be it none"}, unavailableExit, usageExit, faultExit},
	"flockd-once-forget": {
		{"0", "the run is forgotten"}, {"1", "no such run is recorded"},
		unavailableExit, usageExit, faultExit,
	},
}

var (
	unavailableExit = [2]string{"69", "the store could not be reached or refused"}
	usageExit       = [2]string{"64", "wrong flags or configuration"}
	faultExit       = [2]string{"70", "a fault in flockd"}
)
