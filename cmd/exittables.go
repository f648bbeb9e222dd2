package cmd

// exitTables are the exit codes of the commands, by their man pages, for these and the help.
var exitTables = map[string][][2]string{
	"flockd-run": exitCodes,
	"flockd-elect": {
		{"0", "TERM has made it resign: nothing of COMMAND is left, and the key is given back"},
		{"N, 128+N", "with --restart: COMMAND has ended by itself"},
		{"128+N", "signal N, as INT, has made it resign"},
		{"79", "told to end, it lost the lease before COMMAND had been stopped"},
		{"69", "the store refused before it ever was in line"},
		{"126, 127", "COMMAND can't be executed, was not found"},
		usageExit, faultExit,
	},
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
	"flockd-leader": {
		{"0", "somebody leads"},
		{"1", "nobody does; with --wait, nobody did in that time"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-resign": {
		{"0", "the leader has been asked, or with --wait its term is over"},
		{"1", "nobody leads"},
		{"75", "with --wait: the term isn't over"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-check": {
		{"0", "the hold stands, and so much of its lease is left"},
		{"79", "lost: it is gone, or the command is to stop"},
		{"69", "nobody can tell: flockd or the store doesn't answer; or too late"},
		usageExit, faultExit,
	},
	"flockd-drill": {
		{"0", "all went as promised"},
		{"1", "two ran at once, terms didn't grow, a stale write was admitted, no other leader was elected, or the old one didn't follow: the report says which"},
		{"75", "KEY.drill is taken: another drill is under way"},
		{"128+N", "signal N ended the drill"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-once-list": {{"0", "they were listed, be it none"}, unavailableExit, usageExit, faultExit},
	"flockd-once-forget": {
		{"0", "the run is forgotten"}, {"1", "no such run is recorded"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-fence-admit": {
		{"0", "the token is admitted: no larger one came before"}, staleExit,
		{"69", "no store is named or nobody has used it, or it could not be reached or refused"}, usageExit, faultExit,
	},
	"flockd-fence-show": {
		{"0", "it was shown"}, {"1", "no token has been admitted for RESOURCE"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-fence-reset": {
		{"0", "N is the largest token"}, {"80", "stale: it has seen a larger one than N, and --force isn't given"},
		unavailableExit, usageExit, faultExit,
	},
	"flockd-fence-file": {
		{"0", "DEST has the content, also after a power cut; with --raise, the token is admitted"},
		staleExit,
		{"69", "the file system refuses, DEST is locked by another process, or the content is empty or not as long as --size says; DEST is what it was, unless the message says otherwise"},
		{"64", "wrong flags, no token, or DEST can't be such a file"}, faultExit,
	},
}

var (
	unavailableExit = [2]string{"69", "the store could not be reached or refused"}
	usageExit       = [2]string{"64", "wrong flags or configuration"}
	faultExit       = [2]string{"70", "a fault in flockd"}
	staleExit       = [2]string{"80", "stale: a larger token came before"}
)
