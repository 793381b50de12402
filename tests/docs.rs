//! What the pages show of the code stands in the code, and what they link to is there.

use std::path::Path;

/// The fenced blocks that name a file, as `(file, text)`.
fn excerpts(page: &str) -> Vec<(String, String)> {
    let fences = page.split("\n```rust file=").skip(1);
    fences
        .map(|rest| {
            let (file, rest) = rest.split_once('\n').expect("a line after the file's name");
            let (text, _) = rest.split_once("\n```").expect("the end of the excerpt");
            (file.to_owned(), text.to_owned())
        })
        .collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).replace("\r\n", "\n")
}

#[test]
fn every_excerpt_on_the_page_about_drivers_stands_in_its_file_to_the_letter() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = read(&root.join("docs/add-a-driver.md"));
    let found = excerpts(&page);
    assert_eq!(found.len(), page.matches("\n```rust").count(), "every excerpt names its file");
    for wanted in ["src/devices/mod.rs", "src/devices/asi.rs", "hw-sim/src/asi.rs", "tests/support/peers.rs"] {
        assert!(found.iter().any(|(file, _)| file == wanted), "nothing is shown of {wanted}");
    }
    for (file, text) in found {
        let source = read(&root.join(&file));
        assert!(!text.trim().is_empty());
        // Whole lines: an excerpt neither begins nor ends inside of one.
        assert!(format!("\n{source}").contains(&format!("\n{text}\n")), "{file} doesn't say:\n{text}");
    }
}

#[test]
fn links_within_the_repository_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).expect("docs").map(|e| e.expect("an entry").path());
    let pages = docs.filter(|p| p.extension().is_some_and(|e| e == "md"));
    let pages = pages.chain([root.join("README.md"), root.join("packaging/skill/SKILL.md")]);
    let mut checked = 0;
    for page in pages {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or("");
            if path.is_empty() || link.starts_with("http") || link.starts_with("mailto:") {
                continue;
            }
            assert!(page.parent().expect("a folder").join(path).exists(), "{} links to {path}", page.display());
            checked += 1;
        }
    }
    assert!(checked > 5, "{checked}");
}

#[test]
fn the_skill_has_the_front_matter_that_agents_read() {
    let page = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/skill/SKILL.md"));
    let (front, body) = page.strip_prefix("---\n").and_then(|p| p.split_once("\n---\n")).expect("front matter");
    let value = |key: &str| {
        let line = front.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {key}"))
    };
    let (name, description) = (value("name"), value("description"));
    assert!(name.len() <= 64 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
    assert!(
        (1..=1024).contains(&description.len()) && !description.contains(": "),
        "plain YAML, at most 1024 characters"
    );
    assert!(body.lines().count() < 500, "what is read at once stays short");
}

/// One row a fault: its name, what it takes, and its own words.
fn faults() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = syn::parse_file(&read(&root.join("hw-sim/src/fault.rs"))).expect("Rust");
    let words = |attributes: &[syn::Attribute]| {
        let lines = attributes.iter().filter_map(|a| match &a.meta {
            syn::Meta::NameValue(syn::MetaNameValue { path, value: syn::Expr::Lit(text), .. })
                if path.is_ident("doc") =>
            {
                match &text.lit {
                    syn::Lit::Str(text) => Some(text.value().trim().to_owned()),
                    _ => None,
                }
            }
            _ => None,
        });
        lines.collect::<Vec<_>>().join(" ").replace('|', "\\|")
    };
    let snake = |name: &syn::Ident| {
        let mut out = String::new();
        for c in name.to_string().chars() {
            if c.is_uppercase() && !out.is_empty() {
                out.push('_');
            }
            out.extend(c.to_lowercase());
        }
        out
    };
    let mut rows = String::from("| fault | takes | what happens |\n|---|---|---|\n");
    let variants = tree.items.iter().find_map(|i| match i {
        syn::Item::Enum(e) if e.ident == "Fault" => Some(&e.variants),
        _ => None,
    });
    for v in variants.expect("the faults") {
        let takes: Vec<String> = v
            .fields
            .iter()
            .map(|f| format!("`{}`: {}", f.ident.as_ref().expect("named"), words(&f.attrs).trim_end_matches('.')))
            .collect();
        rows += &format!("| `{}` | {} | {} |\n", snake(&v.ident), takes.join("; "), words(&v.attrs));
    }
    rows
}

#[test]
fn the_page_about_the_simulator_has_every_fault() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulator.md");
    let page = read(&path);
    let (before, rest) = page.split_once("<!-- faults -->\n").expect("where the faults begin");
    let (_, after) = rest.split_once("<!-- end -->").expect("where they end");
    let wanted = format!("{before}<!-- faults -->\n{}<!-- end -->{after}", faults());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).expect("written");
    }
    assert_eq!(read(&path), wanted, "run UPDATE_DOCS=1 cargo test --test docs");
}
