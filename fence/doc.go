// Package fence replaces a file for whoever has a fencing token, unless somebody with
// a larger one has replaced it before. It knows nothing of stores and leases.
//
// # Beside the file
//
// In the folder of NAME lies .NAME.fence, the sidecar: the largest token that was
// admitted, and at the same time the lock, by flock(2). It is never written in place: a
// new one takes its place. So whoever gets the lock looks whether what it has locked is
// what the name leads to, and else begins again with that. Drafts, which become the file
// or the sidecar, are named .NAME.fence.XXXXXXXX. Their writer has them locked as long as
// it lives; the others are swept by the next writer that may open them.
//
// # The protocol
//
//  1. Look at the file, the file system and the sidecar: what is refused is refused
//     before the content is read.
//  2. Make a draft with the content and the old file's mode and owner, and fsync it.
//  3. Lock the sidecar and read it. A smaller token than its own ends here.
//  4. Make a draft of the new sidecar, lock it, fsync it, and rename it. Its lock follows
//     on the old one's without a gap. (The first sidecar is linked, which fails where
//     another one came first. Where the token is the same, there is nothing to do.)
//  5. Fsync the folder: the token is on the disk before any of the content can be seen.
//  6. Rename the draft to the file.
//  7. Fsync the folder, and give up the lock.
//
// Raise is 1, 3, 4 and 5, or 1 and 5 where the sidecar has the token already.
//
// # A crash
//
// Until step 4 nothing has changed but drafts. Between 4 and 6 the old content is there
// with the new token: smaller tokens are refused from then on, the same hold or a later
// one writes again. From 6 on the new content is there, with its token. A kill at any
// point frees the lock, since it is the kernel's.
//
// After a power cut the same holds, by the order of the fsyncs: a name leads to a draft
// only after its bytes are on the disk (2 before 6), and to the new file only after the
// token is there (5 before 6). What Replace returned nil for is there (7). That is worth as
// much as the disk's word that it has flushed its cache.
//
// A writer that is frozen in steps 4 to 7 keeps the lock, so that nobody overtakes it: when
// it wakes, nothing has changed. Others give up meanwhile.
//
// # What is not
//
// Writers that don't go by this package aren't fenced. Neither is one that has the file open:
// it writes on to the old inode, which has no name any more. Other names of the file (hard
// links) keep the old content. Extended attributes, ACLs and the set-ID bits aren't carried
// over; the owner and group only as far as the writer may, and where the group changes it is
// allowed no more than everybody.
//
// Whoever may read the sidecar can lock it, and so hold up all writers. It is therefore
// readable for those alone who may write the folder, as the mode of that tells. They can
// remove it as well, after which any token is admitted again.
//
// The locks hold between the processes of one kernel, containers included. File systems
// that several kernels mount are refused, where it is known of them.
package fence
