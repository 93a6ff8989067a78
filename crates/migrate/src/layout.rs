//! Long expressions on several lines: broken at the loosest operators, arguments of macros indented.

/// How long a line may be.
const WIDTH: usize = 100;

/// Breaks an expression into lines.
pub(crate) fn layout(expression: &str) -> String {
    if expression.contains('\n') {
        return expression.trim().to_owned();
    }
    broken(expression.trim(), WIDTH)
}

fn broken(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    for operator in [" || ", " && "] {
        let parts = split(text, operator);
        // Inside a conditional an operator belongs to one of its parts.
        if parts.len() > 1 && split(text, " ? ").len() == 1 {
            let lines: Vec<String> = parts.iter().map(|part| broken(part, width)).collect();
            return lines.join(&format!("{}\n", operator.trim_end()));
        }
    }
    let choice = split(text, " ? ");
    if let [condition, rest] = choice.as_slice()
        && let [yes, no] = split(rest, " : ").as_slice()
    {
        let (yes, no) = (broken(yes, width), broken(no, width));
        return format!("{} ?\n{} :\n{}", broken(condition, width), indent(&yes), indent(&no));
    }
    if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        && last_bracket(text) == text.len() - 1
    {
        return format!("[\n{}\n]", indent(&filled(&split(list, ", "), width.saturating_sub(2))));
    }
    let sum = split(text, " + ");
    if sum.len() > 1 && split(text, " == ").len() == 1 && split(text, " in ").len() == 1 {
        let lines: Vec<String> = sum.iter().map(|part| broken(part, width)).collect();
        return lines.join(" +\n");
    }
    match last_group(text) {
        Some((open, close)) if close - open > 20 => {
            // What comes before and after may be long itself.
            let tail = format!("){}", broken(&text[close + 1..], width));
            let head = if open > width && last_group(&text[..open]).is_some() {
                format!("{}(", broken(&text[..open], width))
            } else {
                text[..=open].to_owned()
            };
            let inner = &text[open + 1..close];
            let args = split(inner, ", ");
            let inner = match args.as_slice() {
                [variable, rest @ ..] if !rest.is_empty() && is_name(variable) => {
                    let body = broken(&rest.join(", "), width.saturating_sub(2).max(40));
                    return format!("{head}{variable},\n{}\n{tail}", indent(&body));
                }
                _ => broken(inner, width.saturating_sub(2).max(40)),
            };
            format!("{head}\n{}\n{tail}", indent(&inner))
        }
        _ => text.to_owned(),
    }
}

/// As many items of a list on each line as it has room for.
fn filled(items: &[&str], width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let item = if number + 1 < items.len() {
            format!("{item},")
        } else {
            (*item).to_owned()
        };
        match lines.last_mut() {
            Some(line) if line.chars().count() + item.chars().count() < width => {
                line.push(' ');
                line.push_str(&item);
            }
            _ => lines.push(item),
        }
    }
    lines.join("\n")
}

/// Where the bracket at the start of a text is closed.
fn last_bracket(text: &str) -> usize {
    let closing = outside_texts(text).find(|(_, c, depth)| *c == ']' && *depth == 1);
    closing.map_or(0, |(at, _, _)| at)
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn indent(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// Walks over the characters outside of string literals, with the depth of brackets before each.
pub(crate) fn outside_texts(text: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    text.char_indices().filter_map(move |(at, c)| {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == open {
                quote = None;
            }
            return None;
        }
        let before = depth;
        match c {
            '\'' | '"' => {
                quote = Some(c);
                return None;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some((at, c, before))
    })
}

/// The parts between an operator outside of all brackets.
fn split<'t>(text: &'t str, operator: &str) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _, depth) in outside_texts(text) {
        if depth == 0 && at >= from && text[at..].starts_with(operator) {
            parts.push(&text[from..at]);
            from = at + operator.len();
        }
    }
    parts.push(&text[from..]);
    parts
}

/// The longest pair of parentheses outside of all brackets.
fn last_group(text: &str) -> Option<(usize, usize)> {
    let mut open = None;
    let mut best: Option<(usize, usize)> = None;
    for (at, c, depth) in outside_texts(text) {
        match c {
            '(' if depth == 0 => open = Some(at),
            ')' if depth == 1 => {
                if let Some(from) = open
                    && best.is_none_or(|(a, b)| at - from > b - a)
                {
                    best = Some((from, at));
                }
            }
            _ => {}
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn lines_break_at_the_loosest_operator() {
        let text = "variables.allContainers.all(container, container.image != '' && container.name != 'a || b')";
        assert_eq!(
            broken(text, 60),
            "variables.allContainers.all(container,\n  container.image != '' && container.name != 'a || b'\n)"
        );
        assert_eq!(broken("aaaa && bbbb || cccc", 12), "aaaa && bbbb ||\ncccc");
        assert_eq!(broken("aaaa + bbbb + cccc", 12), "aaaa +\nbbbb +\ncccc");
    }

    #[test]
    fn lists_are_filled_and_long_receivers_are_broken() {
        let list = "['a', 'bb', 'ccc', 'dddd', 'eeeee']";
        assert_eq!(broken(list, 20), "[\n  'a', 'bb', 'ccc',\n  'dddd', 'eeeee'\n]");
        let text = "variables.containers.map(container, container.resources.limits.memory).all(memory, memory < variables.limit)";
        assert_eq!(
            broken(text, 50),
            "variables.containers.map(container,\n  container.resources.limits.memory\n).all(memory, memory < variables.limit)"
        );
    }
}
