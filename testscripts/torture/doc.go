// Package torture judges flockd by its histories. Many real flockd fight for a few keys
// of a real store, while processes, servers and connections fail at random; what they
// did is then held to what an exclusive lock would have done, in three ways that don't
// depend on each other:
//
//   - The command takes locks of the kernel that nobody can have whom it mustn't be beside
//     (package oracle). No clock is needed to see that it fails. Some commands leave a
//     daemon, with the locks in its hands.
//   - The command stamps the time all the while it lives, in every process of it. No
//     two commands of a key may overlap, and none may live on when its lease, counted
//     from the sending of the last request that the store acknowledged, can't be proven
//     any more, whether somebody else is there or not.
//   - A tracer, built into flockd by go build -overlay, writes down each request to the
//     store before it is sent, and each answer. porcupine looks for an order of all of them
//     in which an exclusive lock would have answered so; see model_test.go.
//
// One key at a time is asked for in all modes, shared and slots too; of the three only
// the kernel's locks judge that.
//
// Nobody may ask for the end of a hold while a process of its command lives. Keys whose
// flockd was killed must be given back by its guard, as far as the store can be reached.
// Half of the contenders can't make a cgroup for their command; the others can where the
// host lets them. After the faults everybody who is in line must be served, all lines must
// become empty by themselves, and no process may be left.
//
// What a storm did is repeated by FLOCKD_TORTURE_SEED=N, as far as the host's scheduling
// lets it. FLOCKD_TORTURE=10m is how long faults are applied to each store: make torture.
// TestControls and TestEtcdctlLock show that the checks see what is broken.
//
// TestElections has candidates of flockd elect fight for one key, and deposes whoever leads by every
// means, one after the other. The same checks judge it, and more: terms grow in the order in which
// commands began, hooks come in pairs, a text that leaders change by flockd fence file loses no
// update, and the next leader comes in time. FLOCKD_ELECTIONS=1000 is how many changes are made:
// make torture-elect.
//
// What is left out, since flockd doesn't promise it: a flockd that is killed or frozen
// together with its guard while its command is not, one that is frozen with its command
// and its guard until another has the key, and steps of a server's clock. A Redis that
// forgets what it acknowledged has a storm of its own, in which commands may overlap and
// tokens must grow.
package torture
