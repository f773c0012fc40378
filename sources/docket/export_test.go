package docket

// Impatient makes the source describe the holders of open ids in every poll.
func (s *Source) Impatient() *Source {
	s.patience = 0
	return s
}
