package wire

// RevisionAbsent is the revision of a missing file.
const RevisionAbsent = "absent"

func (c Change) WithFact(f *Fact) Change {
	c.OnDisk, c.Type, c.Size, c.Mode = false, f.Type, f.Size, f.Mode
	return c
}
