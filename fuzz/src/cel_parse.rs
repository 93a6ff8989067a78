//! The body of the target `cel_parse`: any text is an expression or is refused, issues lie in the text, and the tree does
//! not depend on the space around it.

use kyvtest::cel::{profile::Profile, syntax};

/// Checks one input.
///
/// # Panics
/// If the parser breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for profile in [Profile::kubernetes(), Profile::kyverno()] {
        match syntax::parse(&text, &profile.syntax) {
            Ok(ast) => {
                let tree = syntax::print(&ast);
                assert!(syntax::print_with_offsets(&ast).len() >= tree.len());
                let spaced = syntax::parse(&format!("\n {text}\n"), &profile.syntax);
                match spaced {
                    Ok(ast) => assert_eq!(tree, syntax::print(&ast), "space changes the tree of {text:?}"),
                    // Space counts towards the limit of length.
                    Err(issues) => assert!(text.len() + 10 > profile.syntax.code_point_limit, "{issues}"),
                }
            }
            Err(issues) => assert!(!issues.to_string().is_empty() && !issues.first_line().is_empty()),
        }
    }
}
