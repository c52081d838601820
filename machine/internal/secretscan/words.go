package secretscan

type ruleSet uint64

// machine is an Aho-Corasick automaton: it finds all rules' words in one pass.
type machine struct {
	next  [][256]uint16 // the next state, by state and byte
	rules []ruleSet     // by state: the rules whose words end there
}

var words = newMachine(rules)

func newMachine(rules []rule) machine {
	m := machine{next: make([][256]uint16, 1), rules: make([]ruleSet, 1)}
	for i, rule := range rules {
		for _, word := range rule.words {
			m.add(word, ruleSet(1)<<i)
		}
	}
	m.link()
	return m
}

func (m *machine) add(word string, rule ruleSet) {
	state := uint16(0)
	for _, char := range []byte(word) {
		to := m.next[state][char]
		if to == 0 {
			to = uint16(len(m.next))
			m.next, m.rules = append(m.next, [256]uint16{}), append(m.rules, 0)
			m.next[state][char] = to
		}
		state = to
	}
	m.rules[state] |= rule
}

func (m *machine) link() {
	ends := make([]uint16, len(m.next))
	queue := []uint16{0}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		m.rules[state] |= m.rules[ends[state]]
		for char := range 256 {
			to := m.next[state][char]
			from := uint16(0)
			if state != 0 {
				from = m.next[ends[state]][char]
			}
			if to == 0 {
				m.next[state][char] = from
				continue
			}
			ends[to] = from
			queue = append(queue, to)
		}
	}
	for state := range m.next {
		for char := 'A'; char <= 'Z'; char++ {
			m.next[state][char] = m.next[state][char-'A'+'a']
		}
	}
}
