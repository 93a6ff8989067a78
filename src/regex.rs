//! Go's `regexp/syntax` dialect on linear-time automata.
