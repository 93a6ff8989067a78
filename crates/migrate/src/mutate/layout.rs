//! Patches on several lines: objects, lists and arguments broken at their commas if they are long.

/// How long a line may be.
const WIDTH: usize = 100;

/// Breaks an expression into lines.
pub(crate) fn layout(text: &str) -> String {
    if text.contains('\n') {
        return text.to_owned();
    }
    broken(text, WIDTH)
}

fn broken(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let choice = split(text, " ? ", 2);
    if let [condition, rest] = choice.as_slice()
        && let [yes, no] = split(rest, " : ", 2).as_slice()
    {
        let inner = width.saturating_sub(2);
        return format!(
            "{} ?\n{} :\n{}",
            broken(condition, width),
            indent(&broken(yes, inner)),
            indent(&broken(no, inner))
        );
    }
    for operator in [" || ", " && ", " + "] {
        let parts = split(text, operator, usize::MAX);
        if parts.len() > 1 {
            let lines: Vec<String> = parts.iter().map(|part| broken(part, width)).collect();
            return lines.join(&format!("{}\n", operator.trim_end()));
        }
    }
    let Some((open, close)) = longest_group(text) else {
        return text.to_owned();
    };
    let inner = &text[open + 1..close];
    let parts = split(inner, ", ", usize::MAX);
    let narrow = width.saturating_sub(2).max(40);
    let call = text.as_bytes()[open] == b'(';
    let is_name = |part: &&&str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let heads = if call {
        parts.iter().take_while(is_name).count()
    } else {
        0
    };
    let heads = if heads == parts.len() { 0 } else { heads };
    let lines: Vec<String> = parts[heads..]
        .iter()
        .map(|part| indent(&broken(part, narrow)))
        .collect();
    let mut head = parts[..heads].join(", ");
    if heads > 0 {
        head.push(',');
    }
    format!("{}{}\n{}\n{}", &text[..=open], head, lines.join(",\n"), &text[close..])
}

fn indent(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// The characters outside of string literals, with the depth of brackets before each.
fn walk(text: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let mut depth = 0_usize;
    let mut quote = false;
    let mut escaped = false;
    text.char_indices().filter_map(move |(at, c)| {
        if quote {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == '\'' {
                quote = false;
            }
            return None;
        }
        let before = depth;
        match c {
            '\'' => {
                quote = true;
                return None;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some((at, c, before))
    })
}

/// At most so many parts between an operator outside of all brackets.
fn split<'t>(text: &'t str, operator: &str, most: usize) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _, depth) in walk(text) {
        if depth == 0 && at >= from && parts.len() + 1 < most && text[at..].starts_with(operator) {
            parts.push(&text[from..at]);
            from = at + operator.len();
        }
    }
    parts.push(&text[from..]);
    parts
}

/// The longest pair of brackets outside of all others.
fn longest_group(text: &str) -> Option<(usize, usize)> {
    let mut open = None;
    let mut best: Option<(usize, usize)> = None;
    for (at, c, depth) in walk(text) {
        match c {
            '(' | '[' | '{' if depth == 0 => open = Some(at),
            ')' | ']' | '}' if depth == 1 => {
                if let Some(from) = open
                    && best.is_none_or(|(a, b)| at - from > b - a)
                {
                    best = Some((from, at));
                }
            }
            _ => {}
        }
    }
    best.filter(|(open, close)| close - open > 1)
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn objects_break_at_their_fields() {
        let text = "Object{metadata: Object.metadata{labels: {'a': 'x, y', 'b': 'z'}}}";
        assert_eq!(
            broken(text, 40),
            "Object{\n  metadata: Object.metadata{\n    labels: {'a': 'x, y', 'b': 'z'}\n  }\n}"
        );
    }
}
