//! The modules of a crate, read from its source: the file that holds each module, the names that it defines and
//! imports, and the paths that it names.
//!
//! The parser reads tokens, not Rust: macros are not expanded, and a name that arrives through `use foo::*` is looked
//! up only in `foo`. Modules under `#[cfg(test)]` are marked, because tests may use everything.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A path in the source, without anything before `crate`, `self`, `super` or a first name.
pub(super) type Segments = Vec<String>;

/// The modules of a crate; the first is its root.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
}

#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// The file that holds the module: the module's own file, or an ancestor's file for `mod name { … }`.
    pub(super) file: PathBuf,
    /// Whether the module or an ancestor is under `#[cfg(test)]`.
    pub(super) is_test: bool,
    content: Content,
}

/// The names and paths in a module.
#[derive(Debug, Default)]
struct Content {
    /// The names that the module defines.
    items: HashSet<String>,
    /// Names that the module imports or re-exports, with their paths.
    imports: HashMap<String, Segments>,
    /// Modules of which everything is imported.
    globs: Vec<Segments>,
    /// Every path that an import or a body names.
    paths: Vec<Segments>,
}

impl Tree {
    /// Reads the crate with this root and every file that its modules name.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let folder = root.parent().context("the crate's root file is in no folder")?.to_owned();
        let mut tree = Self { modules: Vec::new() };
        let tokens = tokens_of(root)?;
        tree.add("crate", None, root, &folder, false, tokens)?;
        Ok(tree)
    }

    /// The files of all modules, tests included.
    pub(super) fn files(&self) -> HashSet<&Path> {
        self.modules.iter().map(|module| module.file.as_path()).collect()
    }

    /// The path of the module, such as `crate::a::b`.
    pub(super) fn path(&self, module: usize) -> String {
        let lineage = self.lineage(module);
        lineage.iter().map(|module| self.modules[*module].name.as_str()).collect::<Vec<_>>().join("::")
    }

    /// The module and its ancestors, the root first.
    pub(super) fn lineage(&self, module: usize) -> Vec<usize> {
        let mut lineage = vec![module];
        let mut at = module;
        while let Some(parent) = self.modules[at].parent {
            lineage.push(parent);
            at = parent;
        }
        lineage.reverse();
        lineage
    }

    /// The modules that this module names, without tests. A module that names itself is included.
    pub(super) fn named_by(&self, module: usize) -> HashSet<usize> {
        let paths = self.modules[module].content.paths.iter();
        let targets = paths.filter_map(|path| self.resolve(module, path, &mut HashSet::new()));
        targets.filter(|target| !self.modules[*target].is_test).collect()
    }

    /// The module that defines the meaning of a path in `module`; `None` for a path of another crate.
    fn resolve(&self, module: usize, path: &[String], seen: &mut HashSet<(usize, String)>) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(0, rest, seen),
            "self" => self.descend(module, rest, seen),
            "super" => self.descend(self.modules[module].parent?, rest, seen),
            _ => self.step(module, first, rest, seen),
        }
    }

    /// Follows a path from a known module. An unknown name counts as a name of that module.
    fn descend(&self, module: usize, path: &[String], seen: &mut HashSet<(usize, String)>) -> Option<usize> {
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        if first == "super" {
            return self.descend(self.modules[module].parent?, rest, seen);
        }
        if first == "self" || self.modules[module].content.items.contains(first) {
            return Some(module);
        }
        self.step(module, first, rest, seen).or(Some(module))
    }

    /// The module that a name means inside a module: a child, or an import.
    fn step(&self, module: usize, name: &str, rest: &[String], seen: &mut HashSet<(usize, String)>) -> Option<usize> {
        let Module { children, content, .. } = &self.modules[module];
        if let Some(child) = children.iter().find(|child| self.modules[**child].name == name) {
            return self.descend(*child, rest, seen);
        }
        if !seen.insert((module, name.to_owned())) {
            return None;
        }
        if let Some(import) = content.imports.get(name) {
            let path: Segments = import.iter().chain(rest).cloned().collect();
            return self.resolve(module, &path, seen);
        }
        content.globs.iter().find_map(|glob| {
            let source = self.resolve(module, glob, seen).filter(|source| *source != module)?;
            let defines = self.modules[source].content.items.contains(name);
            if defines { Some(source) } else { self.step(source, name, rest, seen) }
        })
    }

    /// Adds a module and the modules inside it. `folder` contains the files of its children.
    fn add(
        &mut self,
        name: &str,
        parent: Option<usize>,
        file: &Path,
        folder: &Path,
        is_test: bool,
        tokens: TokenStream,
    ) -> Result<usize> {
        let mut scan = Scan::default();
        scan.tokens(tokens, true);
        let index = self.modules.len();
        let content = scan.content;
        let module =
            Module { name: name.to_owned(), parent, children: Vec::new(), file: file.to_owned(), is_test, content };
        self.modules.push(module);
        for child in scan.children {
            let is_test = is_test || child.is_test;
            let below = folder.join(&child.name);
            let added = match child.body {
                Some(body) => self.add(&child.name, Some(index), file, &below, is_test, body)?,
                None => {
                    let (file, folder) = child_file(file, folder, &child)?;
                    self.add(&child.name, Some(index), &file, &folder, is_test, tokens_of(&file)?)?
                }
            };
            self.modules[index].children.push(added);
        }
        Ok(index)
    }
}

/// The file of `mod name;`, and the folder for the files of its children.
fn child_file(parent: &Path, folder: &Path, child: &Child) -> Result<(PathBuf, PathBuf)> {
    let below = folder.join(&child.name);
    if let Some(path) = &child.path {
        let file = parent.with_file_name(path);
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        return Ok((file, folder));
    }
    let candidates = [folder.join(format!("{}.rs", child.name)), below.join("mod.rs")];
    let found = candidates.into_iter().find(|file| file.is_file());
    let file = found.with_context(|| format!("{}: no file for `mod {}`", parent.display(), child.name))?;
    Ok((file, below))
}

/// The tokens of a Rust file.
pub(super) fn tokens_of(file: &Path) -> Result<TokenStream> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.parse().map_err(|error| anyhow!("{}: {error}", file.display()))
}

/// A `mod` declaration.
struct Child {
    name: String,
    is_test: bool,
    /// The value of `#[path]`.
    path: Option<String>,
    /// The tokens between the braces of `mod name { … }`.
    body: Option<TokenStream>,
}

/// Reads the tokens of one module.
#[derive(Default)]
struct Scan {
    content: Content,
    children: Vec<Child>,
}

/// The attributes before an item.
#[derive(Default)]
struct Attributes {
    is_test: bool,
    path: Option<String>,
}

impl Scan {
    /// Reads the items of a module (`is_top`), or the tokens deeper inside them.
    fn tokens(&mut self, tokens: TokenStream, is_top: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        let mut attributes = Attributes::default();
        while let Some(token) = tokens.get(at) {
            let rest = &tokens[at..];
            if let Some((length, attribute)) = attribute(rest) {
                attributes.read(&attribute);
                at += length;
                continue;
            }
            at += match token {
                TokenTree::Ident(ident) if *ident == "pub" => {
                    1 + usize::from(is_group(rest.get(1), Delimiter::Parenthesis))
                }
                TokenTree::Ident(ident) if *ident == "mod" && is_top => {
                    self.module(rest, std::mem::take(&mut attributes))
                }
                _ if attributes.is_test => {
                    attributes = Attributes::default();
                    length_of_item(rest)
                }
                _ => {
                    attributes = Attributes::default();
                    self.token(rest, is_top)
                }
            };
        }
    }

    /// Reads the construct that begins with the first token, and returns how many tokens it has.
    fn token(&mut self, rest: &[TokenTree], is_top: bool) -> usize {
        match &rest[0] {
            TokenTree::Group(group) => {
                self.tokens(group.stream(), false);
                1
            }
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                match word.as_str() {
                    // `impl Trait + use<'a>` imports nothing.
                    "use" if !is_punct(rest.get(1), '<') => self.import(rest, is_top),
                    "crate" | "self" | "super" => self.path(rest),
                    _ => {
                        if is_top && defines(&word) {
                            self.content.items.extend(name_after(rest));
                        }
                        1
                    }
                }
            }
            // `::crate_name` is not a path of this crate, but `$crate::…` is a path of this crate.
            TokenTree::Punct(_) | TokenTree::Literal(_) => 1,
        }
    }

    /// Reads a path such as `crate::a::b`, `self::a` or `super::a`.
    fn path(&mut self, rest: &[TokenTree]) -> usize {
        let (segments, length) = segments(rest);
        if segments.len() > 1 {
            self.content.paths.push(segments);
        }
        length
    }

    /// Reads an import such as `use a::{b, c as d, e::*};`.
    fn import(&mut self, rest: &[TokenTree], is_top: bool) -> usize {
        let length = rest.iter().position(|token| is_punct(Some(token), ';')).unwrap_or(rest.len());
        let mut leaves = Vec::new();
        use_tree(&rest[1..length], &[], &mut leaves);
        for Leaf { path, name } in leaves {
            self.content.paths.push(path.clone());
            match name {
                None if is_top => self.content.globs.push(path),
                Some(name) if is_top => {
                    self.content.imports.insert(name, path);
                }
                _ => {}
            }
        }
        length + 1
    }

    fn module(&mut self, rest: &[TokenTree], attributes: Attributes) -> usize {
        let Some(TokenTree::Ident(name)) = rest.get(1) else { return 1 };
        let body = match rest.get(2) {
            Some(TokenTree::Group(group)) => Some(group.stream()),
            _ => None,
        };
        let Attributes { is_test, path } = attributes;
        self.children.push(Child { name: name.to_string(), is_test, path, body });
        3
    }
}

impl Attributes {
    fn read(&mut self, attribute: &Group) {
        let text = attribute.stream().to_string();
        let text: String = text.split_whitespace().collect();
        self.is_test |=
            text.starts_with("cfg(") && text.contains("test") && !text.contains("not(test)") || text == "test";
        if let Some(path) = text.strip_prefix("path=") {
            self.path = Some(path.trim_matches('"').to_owned());
        }
    }
}

/// Reads `#[…]` or `#![…]`. Returns the number of tokens, and the group in brackets.
fn attribute(rest: &[TokenTree]) -> Option<(usize, Group)> {
    if !is_punct(rest.first(), '#') {
        return None;
    }
    let at = 1 + usize::from(is_punct(rest.get(1), '!'));
    match rest.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => Some((at + 1, group.clone())),
        _ => None,
    }
}

/// The number of tokens of an item. An item ends with its braces, or with a semicolon if the item has no braces or may
/// continue after its braces.
fn length_of_item(rest: &[TokenTree]) -> usize {
    let ends_with_braces = !rest.iter().take(2).any(|token| {
        matches!(token, TokenTree::Ident(ident) if ["use", "const", "static", "type", "let"].contains(&ident.to_string().as_str()))
    });
    let is_end =
        |token: &TokenTree| is_punct(Some(token), ';') || ends_with_braces && is_group(Some(token), Delimiter::Brace);
    rest.iter().position(is_end).map_or(rest.len(), |end| end + 1)
}

fn defines(keyword: &str) -> bool {
    ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"].contains(&keyword)
}

/// The name in `struct Name` or `macro_rules! name`.
fn name_after(rest: &[TokenTree]) -> Option<String> {
    rest.iter().skip(1).take(2).find_map(|token| match token {
        TokenTree::Ident(name) if *name != "mut" && !defines(&name.to_string()) => Some(name.to_string()),
        _ => None,
    })
}

/// The names of a path, and how many tokens it has.
fn segments(rest: &[TokenTree]) -> (Segments, usize) {
    let (mut names, mut at) = (Segments::new(), 0);
    while let Some(TokenTree::Ident(name)) = rest.get(at) {
        names.push(name.to_string());
        at += 1;
        if !is_path_separator(&rest[at..]) {
            break;
        }
        at += 2;
    }
    (names, at.max(1))
}

/// One import of a `use`: a single name, or all names of a module.
struct Leaf {
    path: Segments,
    name: Option<String>,
}

fn use_tree(tokens: &[TokenTree], prefix: &[String], leaves: &mut Vec<Leaf>) {
    for part in tokens.split(|token| is_punct(Some(token), ',')) {
        let (names, length) = segments(part);
        let mut path: Segments = prefix.iter().chain(&names).cloned().collect();
        let rest = part.get(if names.is_empty() { 0 } else { length }..).unwrap_or_default();
        match rest.first() {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                use_tree(&inner, &path, leaves);
            }
            Some(TokenTree::Punct(punct)) if punct.as_char() == '*' => leaves.push(Leaf { path, name: None }),
            Some(TokenTree::Ident(_)) => leaves.push(Leaf { path, name: rest.get(1).map(ToString::to_string) }),
            _ => {
                if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                if let Some(name) = path.last().cloned() {
                    leaves.push(Leaf { path, name: Some(name) });
                }
            }
        }
    }
}

fn is_path_separator(rest: &[TokenTree]) -> bool {
    is_punct(rest.first(), ':') && is_punct(rest.get(1), ':')
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_group(token: Option<&TokenTree>, wanted: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == wanted)
}
