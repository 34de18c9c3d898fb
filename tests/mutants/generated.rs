//! The mutations that are made by rules: every comparison, boundary, operator, arm, guard and function of a file.
//!
//! Each stands beside the original behind a switch with a number. All that is done to a text is to put pieces between its
//! bytes, so that mutations may lie within each other.

use proc_macro2::Span;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprRepeat, ExprUnary, ImplItemFn, ItemFn,
    ItemImpl, ItemMod, ItemTrait, Pat, ReturnType, Signature, TraitItemFn, Type, UnOp,
    spanned::Spanned,
    visit::{self, Visit},
};

/// The switch in the copy, and the operators of which the mutation is another.
pub(crate) const SWITCH: &str = r#"//! Which mutation is on, and which tests reach which.

use std::{cell::RefCell, collections::HashSet, fs::File, io::Write, ops, sync::LazyLock};

static ON: LazyLock<usize> =
    LazyLock::new(|| std::env::var(VARIABLE).ok().and_then(|n| n.parse().ok()).unwrap_or(usize::MAX));

static REACHED: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::var(RECORD).ok()?;
    std::fs::OpenOptions::new().create(true).append(true).open(path).ok()
});

thread_local!(static SEEN: RefCell<HashSet<usize>> = RefCell::default());

pub(crate) fn at(n: usize) -> bool {
    if let Some(mut file) = REACHED.as_ref()
        && SEEN.with_borrow_mut(|seen| seen.insert(n))
    {
        let line = format!("{n} {}\n", std::thread::current().name().unwrap_or_default());
        file.write_all(line.as_bytes()).unwrap();
    }
    *ON == n
}

pub(crate) fn lt<T: PartialOrd + ?Sized>(n: usize, a: &T, b: &T) -> bool {
    if at(n) { a <= b } else { a < b }
}

pub(crate) fn le<T: PartialOrd + ?Sized>(n: usize, a: &T, b: &T) -> bool {
    if at(n) { a < b } else { a <= b }
}

pub(crate) fn gt<T: PartialOrd + ?Sized>(n: usize, a: &T, b: &T) -> bool {
    if at(n) { a >= b } else { a > b }
}

pub(crate) fn ge<T: PartialOrd + ?Sized>(n: usize, a: &T, b: &T) -> bool {
    if at(n) { a > b } else { a >= b }
}

pub(crate) fn add<A: ops::Add<B, Output = C> + ops::Sub<B, Output = C>, B, C>(n: usize, a: A, b: B) -> C {
    if at(n) { a - b } else { a + b }
}

pub(crate) fn sub<A: ops::Add<B, Output = C> + ops::Sub<B, Output = C>, B, C>(n: usize, a: A, b: B) -> C {
    if at(n) { a + b } else { a - b }
}

pub(crate) fn mul<A: ops::Mul<B, Output = C> + ops::Div<B, Output = C>, B, C>(n: usize, a: A, b: B) -> C {
    if at(n) { a / b } else { a * b }
}

pub(crate) fn div<A: ops::Mul<B, Output = C> + ops::Div<B, Output = C>, B, C>(n: usize, a: A, b: B) -> C {
    if at(n) { a * b } else { a / b }
}

pub(crate) fn add_to<A: ops::AddAssign<B> + ops::SubAssign<B>, B>(n: usize, a: &mut A, b: B) {
    if at(n) { *a -= b } else { *a += b }
}

pub(crate) fn sub_from<A: ops::AddAssign<B> + ops::SubAssign<B>, B>(n: usize, a: &mut A, b: B) {
    if at(n) { *a += b } else { *a -= b }
}
"#;

/// One mutation, made by a rule.
pub(crate) struct Mutation {
    /// The source file.
    pub file: String,
    /// Where it is there: line and column.
    pub place: (usize, usize),
    /// The function around it.
    pub function: String,
    /// What is done.
    pub what: String,
    /// Where it is in the mutated text.
    pub region: Range<usize>,
}

impl Mutation {
    /// Names it until its file changes.
    pub(crate) fn name(&self) -> String {
        let Self {
            file,
            place,
            function,
            what,
            ..
        } = self;
        format!("{file}:{}:{}: {function}: {what}", place.0, place.1)
    }
}

/// Makes every mutation of a file but those of `unviable` names, with numbers that go on after those that `all` has.
/// Answers the text that has them.
pub(crate) fn mutate(file: &str, text: &str, unviable: &BTreeSet<String>, all: &mut Vec<Mutation>) -> String {
    let first = all.len();
    let mut maker = Maker {
        file,
        text,
        unviable,
        all,
        function: Vec::new(),
        pieces: BTreeMap::new(),
    };
    maker.visit_file(&syn::parse_file(text).unwrap());
    let pieces = maker.pieces;
    // Where each begins and ends is known once all are in their places.
    let (mut made, mut copied) = (String::new(), 0);
    let mut regions = vec![(usize::MAX, 0); all.len() - first];
    for (
        at,
        Pieces {
            after,
            before,
            instead,
        },
    ) in pieces
    {
        made += &text[copied..at];
        copied = at;
        let after = after.iter().rev();
        for (number, piece) in after.chain(&before).chain(instead.iter().map(|(piece, _)| piece)) {
            let region = &mut regions[number - first];
            region.0 = region.0.min(made.len());
            made += piece;
            region.1 = made.len();
        }
        if let Some((_, end)) = instead {
            copied = end;
        }
    }
    made += &text[copied..];
    for (mutation, region) in all[first..].iter_mut().zip(regions) {
        mutation.region = region.0..region.1;
    }
    made
}

/// A text, and the number of its mutation.
type Piece = (usize, String);

/// What is put at one place of a text.
#[derive(Default)]
struct Pieces {
    /// Behind what ends here: the innermost is the last to come and the first to stand.
    after: Vec<Piece>,
    /// In front of what begins here: the outermost comes and stands first.
    before: Vec<Piece>,
    /// In place of what begins here and ends there.
    instead: Option<(Piece, usize)>,
}

struct Maker<'a> {
    file: &'a str,
    text: &'a str,
    unviable: &'a BTreeSet<String>,
    all: &'a mut Vec<Mutation>,
    function: Vec<String>,
    pieces: BTreeMap<usize, Pieces>,
}

impl Maker<'_> {
    /// The number of a mutation, unless it is none that compiles.
    fn number(&mut self, at: Span, what: String) -> Option<usize> {
        let start = at.start();
        let mutation = Mutation {
            file: self.file.to_owned(),
            place: (start.line, start.column + 1),
            function: self.function.join("::"),
            what,
            region: 0..0,
        };
        if self.unviable.contains(&mutation.name()) {
            return None;
        }
        self.all.push(mutation);
        Some(self.all.len() - 1)
    }

    fn before(&mut self, at: usize, number: usize, text: impl Into<String>) {
        let pieces = self.pieces.entry(at).or_default();
        pieces.before.push((number, text.into()));
    }

    fn after(&mut self, at: usize, number: usize, text: impl Into<String>) {
        let pieces = self.pieces.entry(at).or_default();
        pieces.after.push((number, text.into()));
    }

    /// Puts pieces around a part of the text. `NUMBER` stands for the switch's number.
    fn around(&mut self, part: Span, what: String, [opening, closing]: [&str; 2]) {
        if let Some(number) = self.number(part, what) {
            self.enclose(part, number, [opening, closing]);
        }
    }

    fn enclose(&mut self, part: Span, number: usize, [opening, closing]: [&str; 2]) {
        let Range { start, end } = part.byte_range();
        self.before(start, number, opening.replace("NUMBER", &number.to_string()));
        self.after(end, number, closing.replace("NUMBER", &number.to_string()));
    }

    /// Makes the operator a function of both sides.
    fn call(&mut self, e: &ExprBinary, function: &str, sides: [&str; 2], becomes: &str) {
        let what = self.operator(e, becomes);
        let Some(number) = self.number(e.op.span(), what) else {
            return;
        };
        let opening = format!("crate::mutants::{function}(NUMBER, {}(", sides[0]);
        self.enclose(e.left.span(), number, [&opening, ")"]);
        let Range { start, end } = e.op.span().byte_range();
        self.pieces.entry(start).or_default().instead = Some(((number, ",".to_owned()), end));
        self.enclose(e.right.span(), number, [&format!("{}(", sides[1]), "))"]);
    }

    /// What is said of an operator: the ends of its sides beside it.
    fn operator(&self, e: &ExprBinary, becomes: &str) -> String {
        let op = &self.text[e.op.span().byte_range()];
        let left: Vec<char> = self.said(e.left.span(), usize::MAX).chars().collect();
        let left: String = left[left.len().saturating_sub(40)..].iter().collect();
        let right = self.said(e.right.span(), 40);
        format!("`{op}` becomes `{becomes}` in `{left} {op} {right}`")
    }

    /// A part of the text as one line, its beginning.
    fn said(&self, part: Span, most: usize) -> String {
        let words: Vec<&str> = self.text[part.byte_range()].split_whitespace().collect();
        words.join(" ").chars().take(most).collect()
    }

    /// What a function may return at once, by its type.
    fn body(&mut self, signature: &Signature, block: &Block) {
        if block.stmts.is_empty() {
            return;
        }
        let values: &[&str] = match &signature.output {
            ReturnType::Default => &["()"],
            ReturnType::Type(_, of) => values(of),
        };
        for value in values {
            let what = match *value {
                "()" => "does nothing".to_owned(),
                value => format!("returns `{value}`"),
            };
            if let Some(number) = self.number(signature.ident.span(), what) {
                let text = format!(" if crate::mutants::at({number}) {{ return {value}; }}");
                self.after(block.brace_token.span.open().byte_range().end, number, text);
            }
        }
    }

    /// Visits a function that is there at run time.
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if signature.constness.is_some() || is_test(attributes) {
            return;
        }
        self.function.push(signature.ident.to_string());
        self.body(signature, block);
        self.visit_block(block);
        self.function.pop();
    }
}

impl<'ast> Visit<'ast> for Maker<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_test(&item.attrs) {
            let of = self.said(item.self_ty.span(), usize::MAX);
            self.function
                .push(of.split('<').next().unwrap_or_default().to_owned());
            visit::visit_item_impl(self, item);
            self.function.pop();
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.function.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.function.pop();
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    // What is known when the program is compiled has no switch.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_type(&mut self, _: &'ast Type) {}

    fn visit_expr_repeat(&mut self, e: &'ast ExprRepeat) {
        self.visit_expr(&e.expr);
    }

    fn visit_expr_binary(&mut self, e: &'ast ExprBinary) {
        let whole = e.span();
        let not = ["(crate::mutants::at(NUMBER) ^ (", "))"];
        match e.op {
            BinOp::Eq(_) => self.around(whole, self.operator(e, "!="), not),
            BinOp::Ne(_) => self.around(whole, self.operator(e, "=="), not),
            BinOp::Lt(_) => {
                self.around(whole, self.operator(e, ">="), not);
                self.call(e, "lt", ["&", "&"], "<=");
            }
            BinOp::Le(_) => {
                self.around(whole, self.operator(e, ">"), not);
                self.call(e, "le", ["&", "&"], "<");
            }
            BinOp::Gt(_) => {
                self.around(whole, self.operator(e, "<="), not);
                self.call(e, "gt", ["&", "&"], ">=");
            }
            BinOp::Ge(_) => {
                self.around(whole, self.operator(e, "<"), not);
                self.call(e, "ge", ["&", "&"], ">");
            }
            BinOp::And(_) | BinOp::Or(_) if !holds_let(&e.left) && !holds_let(&e.right) => {
                let and = matches!(e.op, BinOp::And(_));
                let what = self.operator(e, if and { "||" } else { "&&" });
                if let Some(number) = self.number(e.op.span(), what) {
                    self.enclose(
                        whole,
                        number,
                        ["({ let left_NUMBER = ", " } else { left_NUMBER } })"],
                    );
                    let sign = if and { "!=" } else { "==" };
                    let middle = format!("; if crate::mutants::at({number}) {sign} left_{number} {{");
                    let Range { start, end } = e.op.span().byte_range();
                    self.pieces.entry(start).or_default().instead = Some(((number, middle), end));
                }
            }
            BinOp::Add(_) => self.call(e, "add", ["", ""], "-"),
            BinOp::Sub(_) => self.call(e, "sub", ["", ""], "+"),
            BinOp::Mul(_) => self.call(e, "mul", ["", ""], "/"),
            BinOp::Div(_) => self.call(e, "div", ["", ""], "*"),
            BinOp::AddAssign(_) => self.call(e, "add_to", ["&mut ", ""], "-="),
            BinOp::SubAssign(_) => self.call(e, "sub_from", ["&mut ", ""], "+="),
            _ => {}
        }
        visit::visit_expr_binary(self, e);
    }

    fn visit_expr_unary(&mut self, e: &'ast ExprUnary) {
        if matches!(e.op, UnOp::Not(_)) {
            let what = format!("`!` goes from `{}`", self.said(e.span(), 60));
            self.around(e.span(), what, ["(crate::mutants::at(NUMBER) ^ (", "))"]);
        }
        visit::visit_expr_unary(self, e);
    }

    fn visit_expr_match(&mut self, e: &'ast ExprMatch) {
        let rest = e.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_)));
        for Arm { pat, .. } in &e.arms {
            let said = self.said(pat.span(), 60);
            match pat {
                Pat::Guard(pat) if !holds_let(&pat.guard) => {
                    let guard = pat.guard.span();
                    let what = format!("the guard of `{said}` is true");
                    self.around(guard, what, ["(crate::mutants::at(NUMBER) || (", "))"]);
                    let what = format!("the guard of `{said}` is false");
                    self.around(guard, what, ["(!crate::mutants::at(NUMBER) && (", "))"]);
                }
                Pat::Wild(_) | Pat::Guard(_) => {}
                pat if rest => {
                    if let Some(number) = self.number(pat.span(), format!("the arm `{said}` goes")) {
                        let text = format!(" if !crate::mutants::at({number})");
                        self.after(pat.span().byte_range().end, number, text);
                    }
                }
                _ => {}
            }
        }
        visit::visit_expr_match(self, e);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list().map(|list| list.tokens.to_string());
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && list.is_ok_and(|of| of.contains("test") && !of.contains("not"))
    })
}

/// Only a condition of `if` or `while` may have a `let`, and only where it is.
fn holds_let(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(e) => holds_let(&e.left) || holds_let(&e.right),
        _ => false,
    }
}

/// Values of a type that are easily named. What does not compile goes later.
fn values(of: &Type) -> &'static [&'static str] {
    match of {
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else {
                return &[];
            };
            match (last.ident.to_string().as_str(), &last.arguments) {
                ("bool", _) => &["true", "false"],
                ("Option", _) => &["None"],
                ("Result", _) => &["Ok(Default::default())"],
                _ => &["Default::default()"],
            }
        }
        Type::Tuple(tuple) if tuple.elems.is_empty() => &["()"],
        Type::Tuple(_) => &["Default::default()"],
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => &["\"\""],
            Type::Slice(_) => &["&[]"],
            _ => &[],
        },
        _ => &[],
    }
}
