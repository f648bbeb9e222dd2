package postgres

import (
	"testing"

	"flockd/backends/backendtest/servers"
)

// TestServer is what tests of one server have in common: each has databases, schemas or keys
// of its own.
func TestServer(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t, "fsync=off", "max_connections=300")
	for name, test := range map[string]func(*testing.T, *servers.Process){
		"FirstUse":                firstUse,
		"NoTables":                noTables,
		"NoRights":                noRights,
		"SchemaForOthers":         schemaForOthers,
		"SchemaByItsOwner":        schemaByItsOwner,
		"ForeignTable":            foreignTable,
		"NewerSchema":             newerSchema,
		"NewerRecords":            newerRecords,
		"Unused":                  unused,
		"Login":                   login,
		"Settings":                anySettings,
		"Encodings":               encodings,
		"StrangerTables":          strangerTables,
		"OneHolder":               oneHolder,
		"Deadlock":                deadlock,
		"RenewalWaitsForNobody":   renewalWaitsForNobody,
		"RenewalWaitsTooLong":     renewalWaitsTooLong,
		"LockTimeout":             lockTimeout,
		"Sweep":                   sweep,
		"ClockUnderTheLock":       clockUnderTheLock,
		"AskedAgainUnderTheLock":  askedAgainUnderTheLock,
		"LateUnderTheLock":        lateUnderTheLock,
		"ConnectionEnded":         connectionEnded,
		"OneConnectionForAWaiter": oneConnectionForAWaiter,
		"ListenerEnded":           listenerEnded,
		"ManyWaiters":             manyWaiters,
		"Front":                   front,
		"RegisterIsAdded":         registerIsAdded,
		"RegisterIsAddedOnce":     registerIsAddedOnce,
		"RegisterWithoutRights":   registerWithoutRights,
		"RegisterOfTheLocked":     registerOfTheLocked,
		"NewerRegister":           newerRegister,
		"AdmitAgain":              admitAgain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}
