//! Loops over lists that were made for them, written as loops over the lists themselves.
//!
//! `list.filter(x, test).size() > 0` is `list.exists(x, test)`, and a loop over what `map` makes of a list is one over the list. Both
//! may differ in which error comes first; the proof compares what is written.

use super::{Expr, Level};

impl Expr {
    /// `list.exists(x, test)` for `list.filter(x, test).size() > 0`, and its negation for no elements.
    pub(super) fn counted(&self, operator: &str, other: &Self) -> Option<Self> {
        let some = match (operator, other.text.as_str()) {
            (">" | "!=", "0") | (">=", "1") => true,
            ("==" | "<=", "0") | ("<", "1") => false,
            _ => return None,
        };
        let list = self
            .text
            .strip_suffix(".size()")
            .filter(|_| self.level == Level::Postfix)?;
        let call = Call::last(list)?;
        let (("filter", [variable, test]) | ("map", [variable, test, _])) = (call.method, call.args.as_slice()) else {
            return None;
        };
        let list = Self::primary(call.receiver);
        let exists = list.call("exists", [Self::primary(*variable), Self::primary(*test)]);
        Some(if some {
            Self {
                opposite: Some(format!("!{}", exists.text)),
                ..exists
            }
        } else {
            exists.negate()
        })
    }

    /// `list.exists(x, x.?part.orValue([]).exists(y, test))` for `list.map(x, has(x.part), x.part).flatten().exists(y, test)`,
    /// and the same without `flatten` and with `all`.
    pub(super) fn fused(&self, method: &str, args: &[Self]) -> Option<Self> {
        let ([variable, test], "exists" | "all") = (args, method) else {
            return None;
        };
        let (made, flat) = match self.text.strip_suffix(".flatten()") {
            Some(made) => (made, true),
            None => (self.text.as_str(), false),
        };
        let call = Call::last(made).filter(|call| call.method == "map")?;
        let [outer, present, part] = call.args.as_slice() else {
            return None;
        };
        let is_path = part
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
        if !is_path || declares(&test.text, outer) {
            return None;
        }
        let inner = if flat {
            optional_list(present, part)?.call(method, args.iter().cloned())
        } else {
            if present.contains("&&") || present.contains("||") {
                return None;
            }
            let (there, test) = (Self::primary(*present), test.with_name(&variable.text, part));
            match method {
                "exists" => Self::all([there, test]),
                _ => Self::any([there.negate(), test]),
            }
        };
        Some(Self::primary(call.receiver).call(method, [Self::primary(*outer), inner]))
    }

    /// `list.all(x, test)` for `list.exists(x, !test)`, and the reverse: what is written if the loop is negated.
    pub(super) fn opposite_loop(&self, method: &str, args: &[Self]) -> Option<String> {
        let other = match method {
            "exists" => "all",
            "all" => "exists",
            _ => return None,
        };
        let [variable, test] = args else { return None };
        let is_relation = test.level == Level::Relation;
        let negated = test.negated_relation().text;
        (test.reads_negated() && !is_relation).then(|| {
            format!(
                "{}.{other}({}, {})",
                self.at(Level::Postfix),
                variable.text,
                unwrapped(&negated)
            )
        })
    }

    /// The expression with a path in place of a variable.
    fn with_name(&self, variable: &str, path: &str) -> Self {
        let swap = |text: &str| {
            let mut out = String::with_capacity(text.len());
            let (mut quoted, mut escaped) = (false, false);
            let mut rest = text;
            while let Some(c) = rest.chars().next() {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let starts = out
                    .chars()
                    .next_back()
                    .is_none_or(|before| !is_word(before) && before != '.');
                let behind = rest.strip_prefix(variable).filter(|_| !quoted && starts);
                if let Some(behind) = behind.filter(|behind| behind.chars().next().is_none_or(|next| !is_word(next))) {
                    out.push_str(path);
                    rest = behind;
                    continue;
                }
                match c {
                    _ if escaped => escaped = false,
                    '\\' if quoted => escaped = true,
                    '\'' => quoted = !quoted,
                    _ => {}
                }
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
            out
        };
        Self {
            text: swap(&self.text),
            level: self.level,
            opposite: self.opposite.as_deref().map(swap),
            operands: self
                .operands
                .iter()
                .map(|part| part.with_name(variable, path))
                .collect(),
        }
    }
}

/// A list that is empty if it is not present: `x.?part.orValue([])`.
fn optional_list(present: &str, part: &str) -> Option<Expr> {
    let chain = if let Some(chain) = present.strip_suffix(".hasValue()") {
        (chain.replace(".?", ".") == part).then(|| chain.to_owned())?
    } else {
        let inner = present.strip_prefix("has(").and_then(|rest| rest.strip_suffix(')'))?;
        let (parent, field) = part.rsplit_once('.').filter(|_| inner == part)?;
        format!("{parent}.?{field}")
    };
    Some(Expr::primary(format!("{chain}.orValue([])")))
}

/// An argument without parentheses around the whole of it.
fn unwrapped(text: &str) -> &str {
    let whole = text.starts_with('(') && Call::last(&format!("f.x{text}")).is_some_and(|call| call.receiver == "f");
    if whole { &text[1..text.len() - 1] } else { text }
}

/// Whether an expression has a loop over a variable of this name.
fn declares(text: &str, variable: &str) -> bool {
    text.contains(&format!("({variable}, "))
}

/// A call at the end of an expression.
struct Call<'t> {
    receiver: &'t str,
    method: &'t str,
    args: Vec<&'t str>,
}

impl<'t> Call<'t> {
    fn last(text: &'t str) -> Option<Self> {
        let inner = text.strip_suffix(')')?;
        // Where each open bracket is, with the commas behind it.
        let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
        let (mut quoted, mut escaped) = (false, false);
        for (at, c) in inner.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '\'' => quoted = !quoted,
                _ if quoted => {}
                '(' | '[' | '{' => open.push((at, Vec::new())),
                ')' | ']' | '}' => {
                    open.pop()?;
                }
                ',' => open.last_mut()?.1.push(at),
                _ => {}
            }
        }
        let [(start, commas)] = open.as_slice() else {
            return None;
        };
        let (receiver, method) = inner[..*start].rsplit_once('.')?;
        let mut args = Vec::new();
        let mut from = start + 1;
        for at in commas.iter().copied().chain([inner.len()]) {
            args.push(inner[from..at].trim());
            from = at + 1;
        }
        Some(Self { receiver, method, args })
    }
}

#[cfg(test)]
mod tests {
    use super::Expr;

    #[test]
    fn counted_lists_become_loops() {
        let [a, b, c] = ["a", "b", "c"].map(Expr::primary);
        let found = a.call("filter", [b.clone(), c.clone()]).call("size", []);
        assert_eq!(found.relation(">", &Expr::int(0)).as_str(), "a.exists(b, c)");
        assert_eq!(found.relation("<", &Expr::int(1)).as_str(), "!a.exists(b, c)");
        assert_eq!(found.relation(">", &Expr::int(1)).as_str(), "a.filter(b, c).size() > 1");
        let texts = a.call("map", [b, Expr::string("'),("), c]).call("size", []);
        assert_eq!(texts.relation("!=", &Expr::int(0)).as_str(), r"a.exists(b, '\'),(')");
    }

    #[test]
    fn loops_over_made_lists_become_loops_over_the_lists() {
        let [list, x, y] = ["list", "x", "y"].map(Expr::primary);
        let made = list.call("map", [x.clone(), x.field("part").has(), x.field("part")]);
        let test = y.relation("==", &Expr::string("y"));
        assert_eq!(
            made.call("flatten", [])
                .call("exists", [y.clone(), test.clone()])
                .as_str(),
            "list.exists(x, x.?part.orValue([]).exists(y, y == 'y'))"
        );
        assert_eq!(
            made.call("exists", [y.clone(), test.clone()]).as_str(),
            "list.exists(x, has(x.part) && x.part == 'y')"
        );
        assert_eq!(
            made.call("all", [y.clone(), test.clone()]).as_str(),
            "list.all(x, !has(x.part) || x.part == 'y')"
        );
        let either = Expr::any([test, x.clone()]);
        let exists = list.call("exists", [y, either.negate()]);
        assert_eq!(exists.as_str(), "list.exists(y, !(y == 'y' || x))");
        assert_eq!(exists.negated_relation().as_str(), "list.all(y, y == 'y' || x)");
    }
}
