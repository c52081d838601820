package wire

// A tree, and a command's changes to it, travel as entries: a line of JSON each, then a file's content. Paths are
// relative to the guest's /home/user; "" is the root.
//
//	/trees/apply    TreeApplyRequest, then TreeEntry...   updates the kept copy of a subject's tree
//	/trees/changes  -> TreeEntry...                        of the ended machine; carries no fence
//
// The kept copy is a cache: a start on another is refused with tree_stale, which names the kept one.
