//! Differences between texts, line by line.
//!
//! Upstream counterpart: none. The crate exists because the algorithms of `similar` are generic: here they are compiled
//! once.

use similar::TextDiff;

/// The change from one text to another in the format of `diff -u`, with `context` lines around each change. Empty if the
/// texts are equal.
pub fn unified(before: &str, after: &str, [from, to]: [&str; 2], context: usize) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut unified = diff.unified_diff();
    unified.context_radius(context).header(from, to).to_string()
}

/// All lines of both texts without their ends, each with `-` if only the first text has it, `+` if only the second has it, or
/// a space.
pub fn lines(before: &str, after: &str) -> Vec<(char, String)> {
    let diff = TextDiff::from_lines(before, after);
    let marked = diff.iter_all_changes().map(|change| {
        let mark = match change.tag() {
            similar::ChangeTag::Delete => '-',
            similar::ChangeTag::Insert => '+',
            similar::ChangeTag::Equal => ' ',
        };
        let line = change.value();
        (mark, line.strip_suffix('\n').unwrap_or(line).to_owned())
    });
    marked.collect()
}

#[cfg(test)]
mod tests {
    use super::{lines, unified};

    #[test]
    fn equal_texts_have_no_unified_difference() {
        assert_eq!(unified("a\n", "a\n", ["x", "y"], 3), "");
    }

    #[test]
    fn a_changed_line_is_shown_with_its_context() {
        let text = unified("a\nb\nc\nd\n", "a\nb\nx\nd\n", ["old", "new"], 1);
        assert_eq!(text, "--- old\n+++ new\n@@ -2,3 +2,3 @@\n b\n-c\n+x\n d\n");
    }

    #[test]
    fn lines_are_marked_by_the_side_that_has_them() {
        let marked = lines("a\nb\n", "a\nc\n");
        let expected = [(' ', "a"), ('-', "b"), ('+', "c")].map(|(mark, line)| (mark, line.to_owned()));
        assert_eq!(marked, expected);
    }
}
