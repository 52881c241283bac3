//! Parses a text into the syntax tree, with the parser of the `cel` crate. Only this module uses that crate, and only its parser.

mod depth;
mod lower;
mod macros;
mod places;

use super::ast::Ast;
use super::source::{CompileError, Errors, Source};
use lower::Lowering;

/// The number of code points of a source: `expressionSizeCodePointLimit` of cel-go.
const MAX_CODE_POINTS: usize = 100_000;
/// The number of levels of expressions, and of operators and selections in a chain: `maxRecursionDepth` of cel-go.
const MAX_DEPTH: u16 = 250;
/// The number of tokens that the parser may skip to recover from an error: `errorRecoveryTokenLookaheadLimit` of cel-go.
const MAX_SKIPPED: usize = 256;
/// The number of errors that the parser recovers from: `errorRecoveryLimit` of cel-go.
const MAX_RECOVERIES: u32 = 30;

/// Parses a source and expands its macros. Needs a stack of [`stack_bytes`].
///
/// # Errors
/// If the source is no expression, or nests deeper than cel-go allows.
pub(crate) fn parse(source: &str) -> Result<Ast, CompileError> {
    let refuse = |message: String| {
        let mut errors = Errors::default();
        errors.add(None, message);
        errors.into_result(source)
    };
    let size = source.chars().count();
    if size > MAX_CODE_POINTS {
        refuse(format!("expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"))?;
    }
    let lines = Source::new(source);
    if depth::exceeds(lines.characters(), MAX_DEPTH.into()) {
        refuse(format!("expression recursion limit exceeded: {MAX_DEPTH}"))?;
    }
    let mut errors = Errors::default();
    let (root, places) = match foreign(source) {
        Ok(parsed) => parsed,
        Err(found) => {
            places::syntax_errors(&found, &lines, &mut errors);
            // If a reserved word is used as a name, cel-go still expands the macros.
            match places::without_reserved(&found, &lines).map(|text| foreign(&text)) {
                Some(Ok(parsed)) => parsed,
                _ => {
                    errors.into_result(source)?;
                    return Err(CompileError("ERROR: <input>:-1:0: no expression".to_owned()));
                }
            }
        }
    };
    let mut lowering = Lowering::new(&lines, places, errors);
    let root = lowering.root(root);
    let (positions, errors) = lowering.finish();
    errors.into_result(source)?;
    let root = root.ok_or_else(|| CompileError("ERROR: <input>:-1:0: max recursion depth exceeded".to_owned()))?;
    Ok(Ast { root, source: source.to_owned(), positions })
}

fn foreign(source: &str) -> Result<(cel::IdedExpr, cel::common::ast::SourceInfo), Vec<cel::ParseError>> {
    // Names in back-ticks are accepted in every release: the API server of a later release may have accepted the expression already.
    let parser = cel::Env::default().with_optional_support(true).parser().enable_ident_escape_syntax(true);
    // cel-go counts the outermost expression too.
    let parser = parser.max_recursion_depth(MAX_DEPTH - 1).error_recovery_limit(MAX_RECOVERIES);
    parser.parse_with_source_info(source).map_err(|found| found.errors)
}

/// The bytes of stack that parsing and checking a source may need. The parser's and the tree's depth is at most the number of operators.
pub(crate) fn stack_bytes(source: &str) -> usize {
    const BASE: usize = 96 << 20;
    const EACH: usize = 12 << 10;
    let operators = source.bytes().filter(|byte| b"+-*/%<>=!.[(?{i".contains(byte)).count();
    BASE + EACH * operators
}
