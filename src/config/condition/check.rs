//! Names and types of a condition: a walk over the parsed expression that lets through what rules need, and nothing
//! else. It costs at most one evaluation a node, and no number in it can become infinite.

use std::ops::Range;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, SourceInfo, operators as op};
use cel::common::types::CelDouble;

use super::super::reader::nearest;
use super::{DEEPEST, Flaw, Reads, Type, Vocabulary, Word, flaw};

/// The most nodes of an expression.
const NODES: usize = 200;
/// The deepest expression: what judges it has the stack of whoever asks. A chain of `&&` is parsed as a flat tree.
const DEPTH: usize = 2 * DEEPEST;
/// The most factors and divisors: with numbers of at most 1e12 nothing overflows.
const FACTORS: usize = 16;
/// The largest number that may be written, and the smallest divisor.
const LARGEST: f64 = 1e9;
const SMALLEST: f64 = 1e-9;

/// Checks an expression and puts each name into one piece.
pub(super) fn check(
    expression: &mut IdedExpr,
    text: &str,
    source: &SourceInfo,
    vocabulary: &Vocabulary,
) -> Result<Vec<Reads>, Flaw> {
    let mut walk = Walk { text, source, vocabulary, reads: Vec::new(), nodes: 0, factors: 0 };
    let found = walk.node(expression, 0)?;
    if found.of != Type::Flag {
        let message = format!("a condition is true or false, and this is {}", found.of.word());
        return flaw(0..text.len(), message, "compare it with something");
    }
    if walk.reads.is_empty() {
        return flaw(0..text.len(), "this names nothing of the rig: it is always the same", "name what it depends on");
    }
    Ok(walk.reads)
}

/// What a part of an expression is.
#[derive(Clone, Copy)]
struct Found<'v> {
    of: Type,
    /// The word of the rig, if it is one.
    word: Option<&'v Word>,
}

impl Found<'_> {
    fn of(of: Type) -> Self {
        Found { of, word: None }
    }
}

impl Type {
    fn word(self) -> &'static str {
        match self {
            Type::Number => "a number",
            Type::Text => "a text",
            Type::Flag => "true or false",
        }
    }
}

struct Walk<'a> {
    text: &'a str,
    source: &'a SourceInfo,
    vocabulary: &'a Vocabulary,
    reads: Vec<Reads>,
    nodes: usize,
    factors: usize,
}

impl<'a> Walk<'a> {
    /// The bytes of a node.
    fn at(&self, id: u64) -> Range<usize> {
        let (start, stop) = self.source.offset_for(id).unwrap_or((0, 0));
        let end = self.text.len();
        let start = (start as usize).min(end);
        start..(stop as usize + 1).clamp(start, end)
    }

    fn node(&mut self, node: &mut IdedExpr, depth: usize) -> Result<Found<'a>, Flaw> {
        self.nodes += 1;
        let at = self.at(node.id);
        if self.nodes > NODES || depth > DEPTH {
            return flaw(at, "this condition is too large", "make several rules of it");
        }
        match &mut node.expr {
            Expr::Literal(literal) => {
                let of = match &*literal {
                    LiteralValue::Boolean(_) => Type::Flag,
                    LiteralValue::String(_) => Type::Text,
                    LiteralValue::Int(v) => {
                        // Whole numbers and others mix freely: all that is measured is a fraction.
                        *literal = LiteralValue::Double(CelDouble::from(*v.inner() as f64));
                        Type::Number
                    }
                    LiteralValue::Double(_) => Type::Number,
                    LiteralValue::UInt(_) | LiteralValue::Bytes(_) | LiteralValue::Null => {
                        return flaw(
                            at,
                            "such a value has no place in a rule",
                            "write a number, 'a text', true or false",
                        );
                    }
                };
                if let LiteralValue::Double(v) = literal
                    && (v.inner().is_nan() || v.inner().abs() > LARGEST)
                {
                    return flaw(at, "this number is too large", format!("write at most {LARGEST}"));
                }
                Ok(Found::of(of))
            }
            Expr::Ident(_) | Expr::Select(_) => self.name(node),
            Expr::Call(call) => self.call(call, at, depth),
            Expr::List(_) => flaw(at, "a list stands only after `in`", "write output.filter in ['gfp', 'dapi']"),
            _ => flaw(at, "rules need no maps, structures or loops", "write it with comparisons, &&, || and !"),
        }
    }

    fn name(&mut self, node: &mut IdedExpr) -> Result<Found<'a>, Flaw> {
        let mut parts: Vec<&str> = Vec::new();
        let mut inner: &IdedExpr = node;
        let first = loop {
            match &inner.expr {
                Expr::Ident(name) => {
                    parts.push(name);
                    break inner.id;
                }
                Expr::Select(select) if !select.test && parts.len() < 8 => {
                    parts.push(&select.field);
                    inner = &select.operand;
                }
                _ => {
                    let at = self.at(node.id);
                    return flaw(at, "this is no name", "write the names that docs/rig-file.md lists");
                }
            }
        };
        parts.reverse();
        let name = parts.join(".");
        let start = self.at(first).start;
        let same = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let length = self.text[start..].find(|c| !same(c)).unwrap_or(self.text.len() - start);
        let at = start..start + length.max(1).min(self.text.len() - start);
        let Some(word) = self.vocabulary.word(&name) else {
            let message = format!("there is no `{name}` {}", self.vocabulary.place());
            return Err(Flaw { at, message, remedy: self.instead(&name), unknown: true });
        };
        if !self.reads.iter().any(|r| r.name == name) {
            self.reads.push(Reads { name: name.clone(), variable: word.variable.clone(), unit: word.unit.clone() });
        }
        node.expr = Expr::Ident(name);
        Ok(Found { of: word.of, word: Some(word) })
    }

    /// What was probably meant, or what there is.
    fn instead(&self, name: &str) -> String {
        if let Some(why) = self.vocabulary.elsewhere(name) {
            return why.to_owned();
        }
        let names = || self.vocabulary.names();
        if let Some(meant) = nearest(name, names()) {
            return format!("did you mean `{meant}`?");
        }
        // The names that begin as it does, from the whole path down to its first part.
        let mut head = name;
        while let Some((shorter, _)) = head.rsplit_once('.') {
            head = shorter;
            let start = format!("{head}.");
            let some: Vec<&str> = names().filter(|n| n.starts_with(&start)).take(12).collect();
            if !some.is_empty() {
                return format!("known here: {}", some.join(", "));
            }
        }
        "names begin with stage, output, sensor, camera or move; docs/rig-file.md lists them".into()
    }

    fn call(&mut self, call: &mut CallExpr, at: Range<usize>, depth: usize) -> Result<Found<'a>, Flaw> {
        let (operator, count) = (call.func_name.clone(), call.args.len());
        if call.target.is_some() {
            return flaw(at, format!("`{operator}` can't be called here"), "write it with comparisons, &&, || and !");
        }
        let shown = operator.trim_matches('_').replace("_?_:", "? :");
        match (operator.as_str(), count) {
            (op::LOGICAL_NOT, 1) => self.all(call, Type::Flag, &shown, at, depth),
            (op::LOGICAL_AND | op::LOGICAL_OR, _) => self.all(call, Type::Flag, &shown, at, depth),
            (op::NEGATE, 1) => self.all(call, Type::Number, "-", at, depth),
            ("abs", 1) => self.all(call, Type::Number, "abs", at, depth),
            (op::ADD | op::SUBSTRACT, 2) => self.all(call, Type::Number, &shown, at, depth),
            (op::MULTIPLY, 2) => {
                self.factor(&at)?;
                self.all(call, Type::Number, &shown, at, depth)
            }
            (op::DIVIDE, 2) => {
                self.factor(&at)?;
                let found = self.all(call, Type::Number, &shown, at.clone(), depth)?;
                let divisor = match &call.args[1].expr {
                    Expr::Literal(LiteralValue::Double(v)) => v.inner().abs(),
                    _ => 0.0,
                };
                if divisor < SMALLEST {
                    return flaw(
                        at,
                        "only a number that isn't zero can be divided by",
                        "multiply the other side instead",
                    );
                }
                Ok(found)
            }
            (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, 2) => {
                self.all(call, Type::Number, &shown, at, depth)?;
                Ok(Found::of(Type::Flag))
            }
            (op::EQUALS | op::NOT_EQUALS, 2) => {
                let [a, b] = &mut call.args[..] else { return flaw(at, "this compares nothing", "write a == b") };
                let (left, right) = (self.node(a, depth + 1)?, self.node(b, depth + 1)?);
                self.comparable(left, right, &*b, &at)?;
                self.comparable(right, left, &*a, &at)?;
                Ok(Found::of(Type::Flag))
            }
            (op::IN, 2) => {
                let [value, list] = &mut call.args[..] else {
                    return flaw(at, "`in` needs a list", "write a in [b, c]");
                };
                let left = self.node(value, depth + 1)?;
                let Expr::List(list) = &mut list.expr else {
                    return flaw(at, "`in` needs a list", "write output.filter in ['gfp', 'dapi']");
                };
                for element in &mut list.elements {
                    let right = self.node(element, depth + 1)?;
                    self.comparable(left, right, element, &at)?;
                }
                Ok(Found::of(Type::Flag))
            }
            (op::CONDITIONAL, 3) => {
                let [test, yes, no] = &mut call.args[..] else {
                    return flaw(at, "a choice has three parts", "a ? b : c");
                };
                let test = self.node(test, depth + 1)?;
                self.must_be(test, Type::Flag, "?", &at)?;
                let (yes, no) = (self.node(yes, depth + 1)?, self.node(no, depth + 1)?);
                self.must_be(no, yes.of, ":", &at)?;
                Ok(Found::of(yes.of))
            }
            _ => flaw(
                at,
                format!("rules have no `{shown}`"),
                "there are < <= > >= == != && || ! + - * / ?: in, and abs(number)",
            ),
        }
    }

    fn factor(&mut self, at: &Range<usize>) -> Result<(), Flaw> {
        self.factors += 1;
        if self.factors > FACTORS {
            return flaw(at.clone(), format!("a rule has at most {FACTORS} times * and /"), "make several rules of it");
        }
        Ok(())
    }

    /// All arguments are of that type, and so is the result.
    fn all(
        &mut self,
        call: &mut CallExpr,
        of: Type,
        operator: &str,
        at: Range<usize>,
        depth: usize,
    ) -> Result<Found<'a>, Flaw> {
        for argument in &mut call.args {
            let found = self.node(argument, depth + 1)?;
            self.must_be(found, of, operator, &at)?;
        }
        Ok(Found::of(of))
    }

    fn must_be(&self, found: Found<'_>, of: Type, operator: &str, at: &Range<usize>) -> Result<(), Flaw> {
        if found.of == of {
            return Ok(());
        }
        let name = found.word.map_or_else(|| "this".to_owned(), |w| format!("`{}`", w.name));
        let message = format!("`{operator}` needs {}, and {name} is {}", of.word(), found.of.word());
        flaw(at.clone(), message, found.word.map_or("compare values of one kind".into(), Word::meaning))
    }

    /// Whether `a` may be compared with `b`, which `node` is.
    fn comparable(&self, a: Found<'_>, b: Found<'_>, node: &IdedExpr, at: &Range<usize>) -> Result<(), Flaw> {
        if a.of != b.of {
            let word = a.word.or(b.word);
            let message = format!("{} can't be compared with {}", a.of.word(), b.of.word());
            return flaw(at.clone(), message, word.map_or("compare values of one kind".into(), Word::meaning));
        }
        if let (Some(word), Expr::Literal(LiteralValue::String(text))) = (a.word, &node.expr)
            && !word.texts.iter().any(|t| t == text.inner())
        {
            let meant = nearest(text.inner(), word.texts.iter().map(String::as_str));
            let remedy = meant.map_or_else(|| word.meaning(), |m| format!("did you mean '{m}'?"));
            let message = format!("`{}` is never '{}'", word.name, text.inner());
            return flaw(self.at(node.id), message, remedy);
        }
        Ok(())
    }
}
