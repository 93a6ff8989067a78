//! Sets of tokens as messages list them.
//!
//! Upstream counterpart: antlr4-go `interval_set.go`. A set is a list of ranges. As upstream, joining ranges considers
//! only one neighbour, which affects the lists in messages.

use std::fmt::Write as _;

use super::{super::lexer::Tok, grammar::token_name};

/// Marks that the rule may end here.
pub(super) const EPSILON: i16 = -2;
/// The end of the text.
pub(super) const EOF: i16 = -1;

/// The number of a token in sets.
pub(super) fn symbol(tok: Tok) -> i16 {
    match tok {
        Tok::Eof => EOF,
        _ => tok as i16,
    }
}

/// A set of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Symbols {
    /// Half-open ranges in ascending order.
    ranges: Vec<(i16, i16)>,
}

impl Symbols {
    pub(super) fn contains(&self, symbol: i16) -> bool {
        self.ranges
            .iter()
            .any(|&(start, stop)| start <= symbol && symbol < stop)
    }

    pub(super) fn first(&self) -> Option<i16> {
        self.ranges.first().map(|range| range.0)
    }

    pub(super) fn add(&mut self, symbol: i16) {
        self.add_range((symbol, symbol + 1));
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for range in &other.ranges {
            self.add_range(*range);
        }
    }

    fn add_range(&mut self, (start, stop): (i16, i16)) {
        let Some(k) = self.ranges.iter().position(|range| stop < range.0 || start <= range.1) else {
            self.ranges.push((start, stop));
            return;
        };
        if stop < self.ranges[k].0 {
            self.ranges.insert(k, (start, stop));
            return;
        }
        if stop == self.ranges[k].0 {
            self.ranges[k].0 = start;
            return;
        }
        let joined = (self.ranges[k].0.min(start), self.ranges[k].1.max(stop));
        self.ranges[k] = joined;
        if let Some(&next) = self.ranges.get(k + 1)
            && joined.1 >= next.0
        {
            self.ranges[k].1 = joined.1.max(next.1);
            self.ranges.remove(k + 1);
        }
    }

    /// Removes the mark that a rule may end, which is the lowest of all.
    pub(super) fn remove_epsilon(&mut self) {
        if let Some(range) = self.ranges.first_mut()
            && range.0 == EPSILON
        {
            range.0 += 1;
            if range.0 == range.1 {
                self.ranges.remove(0);
            }
        }
    }

    /// The tokens by name, in braces unless there is exactly one.
    pub(super) fn display(&self) -> String {
        let names: Vec<&str> = self
            .ranges
            .iter()
            .flat_map(|&(start, stop)| (start..stop).map(token_name))
            .collect();
        match names[..] {
            [single] => single.to_owned(),
            _ => {
                let mut text = String::from("{");
                for (i, name) in names.iter().enumerate() {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{}{name}", if i > 0 { ", " } else { "" });
                }
                text.push('}');
                text
            }
        }
    }
}
