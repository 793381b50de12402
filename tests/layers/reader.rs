//! Reads sources into what each module names: other layers, crates, trait objects; through aliases and re-exports.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// One file, its path relative to the source folder.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// One thing that a module names.
pub(crate) struct Use {
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The module's path: `devices::grbl`; empty for the crate's root.
    pub(crate) module: String,
    pub(crate) in_test: bool,
    pub(crate) target: Target,
}

/// What is named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A top-level module of this crate.
    Layer(String),
    /// Another crate.
    Crate(String),
    /// The last segment of a trait that is used as an object.
    Object(String),
    /// A way of bringing in code that this reader doesn't follow.
    Escape(&'static str),
}

type Module = Vec<String>;

#[derive(Default)]
struct Names {
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    /// Imported names and the paths behind them, as written.
    imports: BTreeMap<String, Written>,
    globs: Vec<Written>,
}

/// A path as it stands in the source.
#[derive(Clone, Debug)]
struct Written {
    segments: Vec<String>,
    /// It began with `::`.
    absolute: bool,
}

/// All modules of a crate.
pub(crate) struct Tree<'a> {
    files: Vec<(&'a Source, Module, syn::File)>,
    modules: BTreeMap<Module, Names>,
    tests: BTreeSet<Module>,
}

fn module_of(path: &str) -> Module {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let mut module: Module = stem.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|l| l == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| match &a.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string();
            text == "test" || text.starts_with("all") && text.contains("test") && !text.contains("not")
        }
        _ => false,
    })
}

/// The leaves of a `use` tree: the whole path, and the name it is bound to (`None` for a glob).
fn leaves(tree: &syn::UseTree, prefix: &[String], out: &mut Vec<(Vec<String>, Option<String>)>) {
    let with = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => leaves(&path.tree, &with(&path.ident), out),
        syn::UseTree::Name(name) if name.ident == "self" => out.push((prefix.to_vec(), prefix.last().cloned())),
        syn::UseTree::Name(name) => out.push((with(&name.ident), Some(name.ident.to_string()))),
        syn::UseTree::Rename(rename) if rename.ident == "self" => {
            out.push((prefix.to_vec(), Some(rename.rename.to_string())));
        }
        syn::UseTree::Rename(rename) => out.push((with(&rename.ident), Some(rename.rename.to_string()))),
        syn::UseTree::Glob(_) => out.push((prefix.to_vec(), None)),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, prefix, out)),
    }
}

impl<'a> Tree<'a> {
    /// Reads all sources of a crate.
    ///
    /// # Panics
    /// When a source is no Rust.
    pub(crate) fn read(sources: &'a [Source]) -> Tree<'a> {
        let parse = |source: &'a Source| {
            let file = syn::parse_file(&source.text).unwrap_or_else(|e| panic!("{}: {e}", source.path));
            (source, module_of(&source.path), file)
        };
        let mut tree =
            Tree { files: sources.iter().map(parse).collect(), modules: BTreeMap::new(), tests: BTreeSet::new() };
        for (_, module, file) in &tree.files {
            let mut collect = Collect { modules: &mut tree.modules, tests: &mut tree.tests, module: module.clone() };
            collect.modules.entry(module.clone()).or_default();
            collect.visit_file(file);
        }
        tree
    }

    /// All that is named anywhere.
    pub(crate) fn uses(&self) -> Vec<Use> {
        let mut found = Vec::new();
        for (source, module, file) in &self.files {
            let in_test = (0..=module.len()).any(|n| self.tests.contains(&module[..n]));
            let mut names = Naming { tree: self, source, module: module.clone(), in_test, found: &mut found };
            names.visit_file(file);
        }
        found
    }

    /// All that a path leads to or through, as seen from `module`.
    fn resolve(&self, module: &[String], path: &Written, depth: usize, out: &mut BTreeSet<Target>) -> Option<Module> {
        let first = path.segments.first()?;
        if depth > 24 {
            return None;
        }
        if path.absolute {
            out.insert(Target::Crate(first.clone()));
            return None;
        }
        let mut at: Module = module.to_vec();
        let mut rest = path.segments.as_slice();
        match first.as_str() {
            "crate" | "$crate" | "steadyhand" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {}
            _ if self.names_of(module, first) => {}
            _ => {
                out.insert(Target::Crate(first.clone()));
                return None;
            }
        }
        while rest.first().is_some_and(|s| s == "super") {
            at.pop();
            rest = &rest[1..];
        }
        self.walk(at, rest, depth, out)
    }

    /// Whether a module gives this name a meaning of its own.
    fn names_of(&self, module: &[String], name: &str) -> bool {
        self.modules
            .get(module)
            .is_some_and(|n| n.children.contains(name) || n.items.contains(name) || n.imports.contains_key(name))
    }

    fn walk(&self, mut at: Module, mut rest: &[String], depth: usize, out: &mut BTreeSet<Target>) -> Option<Module> {
        loop {
            if let Some(layer) = at.first() {
                out.insert(Target::Layer(layer.clone()));
            }
            let Some((next, after)) = rest.split_first() else { return Some(at) };
            let names = self.modules.get(&at);
            if let Some(import) = names.and_then(|n| n.imports.get(next)) {
                // A name may be a module and an item at once: both ways are followed.
                if let Some(target) = self.resolve(&at, import, depth + 1, out) {
                    self.walk(target, after, depth + 1, out);
                }
            }
            if names.is_some_and(|n| n.children.contains(next)) || at.is_empty() {
                at.push(next.clone());
                rest = after;
                continue;
            }
            if let Some(names) = names
                && !names.items.contains(next)
                && !names.imports.contains_key(next)
            {
                for glob in &names.globs {
                    let mut through = BTreeSet::new();
                    let target = self.resolve(&at, glob, depth + 1, &mut through);
                    let Some(target) = target.filter(|t| self.declares(t, next, depth + 1)) else { continue };
                    out.extend(through);
                    self.walk(target, rest, depth + 1, out);
                }
            }
            return None;
        }
    }

    /// Whether a module declares or re-exports a name, by globs too.
    fn declares(&self, module: &[String], name: &str, depth: usize) -> bool {
        depth <= 24
            && (self.names_of(module, name)
                || self.modules.get(module).is_some_and(|names| {
                    names.globs.iter().any(|glob| {
                        self.resolve(module, glob, depth + 1, &mut BTreeSet::new())
                            .is_some_and(|target| self.declares(&target, name, depth + 1))
                    })
                }))
    }
}

/// First pass: what each module declares.
struct Collect<'t> {
    modules: &'t mut BTreeMap<Module, Names>,
    tests: &'t mut BTreeSet<Module>,
    module: Module,
}

impl Collect<'_> {
    fn names(&mut self) -> &mut Names {
        self.modules.entry(self.module.clone()).or_default()
    }
}

impl<'ast> Visit<'ast> for Collect<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        self.names().children.insert(name.clone());
        self.module.push(name);
        if is_test(&item.attrs) {
            self.tests.insert(self.module.clone());
        }
        self.names();
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, &[], &mut found);
        let absolute = item.leading_colon.is_some();
        for (segments, name) in found {
            let written = Written { segments, absolute };
            match name {
                Some(name) => {
                    // `use a;` and `use self::a;` bind a name to itself: there is nothing behind it to follow.
                    let same = written.segments.len() == 1 && written.segments.first() == Some(&name);
                    if !same {
                        self.names().imports.insert(name, written);
                    }
                }
                None => self.names().globs.push(written),
            }
        }
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Const(i) => Some(&i.ident),
            syn::Item::Enum(i) => Some(&i.ident),
            syn::Item::Fn(i) => Some(&i.sig.ident),
            syn::Item::Static(i) => Some(&i.ident),
            syn::Item::Struct(i) => Some(&i.ident),
            syn::Item::Trait(i) => Some(&i.ident),
            syn::Item::Type(i) => Some(&i.ident),
            _ => None,
        };
        if let Some(name) = name {
            let name = name.to_string();
            self.names().items.insert(name);
        }
        visit::visit_item(self, item);
    }
}

/// Second pass: what each module names.
struct Naming<'t, 'a> {
    tree: &'t Tree<'a>,
    source: &'t Source,
    module: Module,
    in_test: bool,
    found: &'t mut Vec<Use>,
}

impl Naming<'_, '_> {
    fn note(&mut self, line: usize, target: Target) {
        let module = self.module.join("::");
        self.found.push(Use { file: self.source.path.clone(), line, module, in_test: self.in_test, target });
    }

    fn path(&mut self, line: usize, segments: Vec<String>, absolute: bool) {
        // A lone name means something only through an import, which is looked at where it stands.
        if segments.len() < 2 && !absolute {
            return;
        }
        let mut targets = BTreeSet::new();
        self.tree.resolve(&self.module, &Written { segments, absolute }, 0, &mut targets);
        targets.into_iter().for_each(|target| self.note(line, target));
    }

    /// Looks for paths in tokens that are not parsed: the arguments and the definitions of macros.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let text = text.trim_matches('"');
                    if ["crate::", "self::", "super::"].iter().any(|p| text.starts_with(p)) && !text.contains(' ') {
                        self.path(literal.span().start().line, text.split("::").map(str::to_owned).collect(), false);
                    }
                }
                TokenTree::Ident(first) => {
                    let absolute = at >= 2 && is(at - 1, ':') && is(at - 2, ':');
                    let mut segments = vec![first.to_string()];
                    while is(at + 1, ':') && is(at + 2, ':') {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                        segments.push(next.to_string());
                        at += 3;
                    }
                    let line = first.span().start().line;
                    if segments == ["dyn"] {
                        let mut last = None;
                        while let Some(TokenTree::Ident(next)) = tokens.get(at + 1) {
                            last = Some(next.to_string());
                            at += if is(at + 2, ':') && is(at + 3, ':') { 3 } else { 1 };
                        }
                        last.into_iter().for_each(|name| self.note(line, Target::Object(name)));
                    } else {
                        self.path(line, segments, absolute);
                    }
                }
                TokenTree::Punct(_) => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Naming<'_, '_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Fn(i) => &i.attrs,
            syn::Item::Impl(i) => &i.attrs,
            syn::Item::Mod(i) => &i.attrs,
            syn::Item::Struct(i) => &i.attrs,
            syn::Item::Use(i) => &i.attrs,
            _ => &[],
        };
        let before = self.in_test;
        self.in_test |= is_test(attributes);
        visit::visit_item(self, item);
        self.in_test = before;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.attrs.iter().any(|a| a.path().is_ident("path")) {
            self.note(item.span().start().line, Target::Escape("#[path]"));
        }
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        } else if self.module.is_empty() && !self.in_test {
            // A declaration in the root names nothing yet; but the layer must be one.
            self.module.push(item.ident.to_string());
            let own = Target::Layer(item.ident.to_string());
            self.note(item.span().start().line, own);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, &[], &mut found);
        let line = item.span().start().line;
        for (segments, _) in found {
            let lone = segments.len() == 1 && !["crate", "self", "super"].contains(&segments[0].as_str());
            if lone && !self.tree.modules.get(&self.module).is_some_and(|n| n.children.contains(&segments[0])) {
                self.note(line, Target::Crate(segments[0].clone()));
            } else {
                self.path(line, segments, item.leading_colon.is_some());
            }
        }
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.note(item.span().start().line, Target::Crate(item.ident.to_string()));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.path(path.span().start().line, segments, path.leading_colon.is_some());
        visit::visit_path(self, path);
    }

    fn visit_type_trait_object(&mut self, object: &'ast syn::TypeTraitObject) {
        for bound in &object.bounds {
            if let syn::TypeParamBound::Trait(bound) = bound
                && let Some(last) = bound.path.segments.last()
            {
                self.note(object.span().start().line, Target::Object(last.ident.to_string()));
            }
        }
        visit::visit_type_trait_object(self, object);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if mac.path.is_ident("include") {
            self.note(mac.span().start().line, Target::Escape("include!"));
        }
        self.tokens(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }
}
