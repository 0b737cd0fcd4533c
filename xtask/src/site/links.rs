//! The links of a website in a folder: each must lead to a file of the folder, and to an element of the page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

/// The page that holds all other pages for printing. mdBook rewrites the links in this page, and some links wrongly.
const PRINT: &str = "print.html";

/// The page that a server shows for an address without a page. Its links count from the root of the site.
const NOT_FOUND: &str = "404.html";

/// Checks all links that stay in `site`, and returns their number.
///
/// # Errors
/// A link leads nowhere: the text names the page and the link.
pub(super) fn check(site: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    read(site, site, &mut pages)?;
    let (mut n_links, mut broken) = (0, Vec::new());
    for (page, text) in &pages {
        for link in attributes(text, &["href=\"", "src=\""]).filter(|link| is_inner(link)) {
            n_links += 1;
            if !leads_somewhere(site, page, link, &pages) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    ensure!(broken.is_empty(), "{} links lead nowhere:\n  {}", broken.len(), broken.join("\n  "));
    Ok(n_links)
}

/// Reads the pages below `folder`, by their paths in the site.
fn read(site: &Path, folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            read(site, &path, pages)?;
        } else if path.extension().is_some_and(|it| it == "html") && name != PRINT && name != NOT_FOUND {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            pages.insert(path.strip_prefix(site)?.to_owned(), text);
        }
    }
    Ok(())
}

/// The values of the attributes that begin with these texts. Values in code blocks are escaped, so they do not count.
fn attributes<'a>(text: &'a str, begins: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    begins.iter().flat_map(|begin| text.split(begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)))
}

fn is_inner(link: &str) -> bool {
    !link.contains(':') && !link.starts_with("//") && !link.is_empty()
}

fn leads_somewhere(site: &Path, page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> bool {
    let (path, anchor) = link.split_once('#').map_or((link, ""), |(path, anchor)| (path, anchor));
    let path = path.split('?').next().unwrap_or_default();
    let mut target = match path {
        "" => page.to_owned(),
        path => match inside(&page.parent().unwrap_or(Path::new("")).join(path)) {
            Some(target) => target,
            None => return false,
        },
    };
    if site.join(&target).is_dir() {
        target.push("index.html");
    }
    if anchor.is_empty() {
        return site.join(&target).is_file();
    }
    let Some(text) = pages.get(&target) else { return false };
    let ids: BTreeSet<&str> = attributes(text, &["id=\"", "name=\""]).collect();
    ids.contains(anchor)
}

/// The path without `.` and `..`; `None` if the path leaves the site.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !inside.pop() {
                    return None;
                }
            }
            Component::Normal(name) => inside.push(name),
            Component::Prefix(_) | Component::RootDir => return None,
        }
    }
    Some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_named() -> Result<()> {
        let site = tempfile::tempdir()?;
        let write = |name: &str, text: &str| fs::write(site.path().join(name), text);
        fs::create_dir(site.path().join("below"))?;
        write("index.html", "<a href=\"below/page.html#part\">a</a> <a href=\"https://example.com\">b</a>")?;
        write("below/page.html", "<h2 id=\"part\"></h2><a href=\"../index.html\">c</a><a href=\"#part\">d</a>")?;
        assert_eq!(check(site.path())?, 3);
        for (link, page) in
            [("none.html", "index.html"), ("below/page.html#none", "index.html"), ("../x", "index.html")]
        {
            write(page, &format!("<a href=\"{link}\">a</a>"))?;
            let error = check(site.path()).expect_err("a broken link").to_string();
            assert!(error.contains(&format!("{page}: {link}")), "{error}");
        }
        Ok(())
    }
}
