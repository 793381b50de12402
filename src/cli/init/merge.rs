//! A new rig file laid over one that exists: what the new one says wins, and everything else stays, comments included.
//! Pure.

use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// The old text with the new one's values. Sections with an `id` are found by it; what only the old text has stays.
///
/// # Errors
/// In words with the line, when one of them is no TOML.
pub(in super::super) fn over(old: &str, new: &str) -> Result<String, String> {
    let parse = |text: &str| text.parse::<DocumentMut>().map_err(|e| e.to_string().trim().to_owned());
    let (mut old, mut new) = (parse(old)?, parse(new)?);
    // Which axes region tools mean is the owner's choice.
    let rig =
        |file: &DocumentMut, key: &str| file.get("rig").and_then(Item::as_table).is_some_and(|t| t.contains_key(key));
    if rig(&old, "scan")
        && let Some(rig) = new.get_mut("rig").and_then(Item::as_table_mut)
    {
        rig.remove("scan");
    }
    table(old.as_table_mut(), new.as_table());
    Ok(old.to_string())
}

fn table(old: &mut dyn TableLike, new: &dyn TableLike) {
    for (key, item) in new.iter() {
        match old.get_mut(key) {
            None => drop(old.insert(key, placed_here(item.clone()))),
            Some(there) => merge(there, item),
        }
    }
}

fn merge(old: &mut Item, new: &Item) {
    match (&mut *old, new) {
        (Item::Table(old), Item::Table(new)) => table(old, new),
        (Item::ArrayOfTables(old), Item::ArrayOfTables(new)) => sections(old, new),
        (Item::Value(old), Item::Value(new)) => value(old, new),
        (old, new) if same_item(old, new) => {}
        (old, new) => *old = new.clone(),
    }
}

fn sections(old: &mut ArrayOfTables, new: &ArrayOfTables) {
    let id = |t: &Table| t.get("id").and_then(Item::as_str).map(str::to_owned);
    for section in new {
        let found = old.iter().position(|t| id(t).is_some() && id(t) == id(section));
        match found.and_then(|i| old.get_mut(i)) {
            Some(there) => {
                // A link leads to one place, however it is written.
                for (one, other) in [("serial", "tcp"), ("tcp", "serial")] {
                    if section.contains_key(one) {
                        there.remove(other);
                    }
                }
                if section.contains_key("tcp") {
                    there.remove("baud");
                }
                table(there, section);
            }
            None => {
                let mut section = section.clone();
                unplaced(&mut section);
                old.push(section);
            }
        }
    }
}

/// A section of the new text without its place there: it stands where it is put, and not between what belongs together.
fn placed_here(mut item: Item) -> Item {
    match &mut item {
        Item::Table(table) => unplaced(table),
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(unplaced),
        Item::None | Item::Value(_) => {}
    }
    item
}

fn unplaced(table: &mut Table) {
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        *item = placed_here(std::mem::take(item));
    }
}

/// A value that means the same stays as it was written; another one takes its place, and the comment behind it stays.
fn value(old: &mut Value, new: &Value) {
    if same(old, new) {
        return;
    }
    // What else somebody wrote into an inline table stays, as a timeout of homing.
    if let (Value::InlineTable(old), Value::InlineTable(new)) = (&mut *old, new)
        && old.contains_key("order")
    {
        return inline(old, new);
    }
    let decor = old.decor().clone();
    *old = new.clone();
    *old.decor_mut() = decor;
}

fn inline(old: &mut InlineTable, new: &InlineTable) {
    for (key, item) in new {
        match old.get_mut(key) {
            Some(there) => value(there, item),
            None => drop(old.insert(key, item.clone())),
        }
    }
}

fn same_item(old: &Item, new: &Item) -> bool {
    matches!((old.as_value(), new.as_value()), (Some(a), Some(b)) if same(a, b))
}

fn same(a: &Value, b: &Value) -> bool {
    let number = |v: &Value| v.as_float().or_else(|| v.as_integer().map(|i| i as f64));
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::InlineTable(a), Value::InlineTable(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            _ => match (a.as_str(), b.as_str()) {
                (Some(a), Some(b)) => a == b,
                _ => matches!((a.as_bool(), b.as_bool()), (Some(a), Some(b)) if a == b),
            },
        },
    }
}

/// What changes between two texts, as `diff -u` shows it; empty when nothing does.
pub(in super::super) fn diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    diffy::DiffOptions::new()
        .set_context_len(2)
        .set_original_filename(format!("{name} (now)"))
        .set_modified_filename(format!("{name} (new)"))
        .create_patch(old, new)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::super::probe::Place;
    use super::super::render::tests::draft;
    use super::super::render::{Draft, Port, render};
    use super::*;

    #[test]
    fn comments_other_sections_and_spellings_stay() {
        let old = render(&draft()).replace("origin = 0.0", "origin = 0 # measured by Ada")
            + "\n# Ours.\n[[keep_out]]\nname = \"lamp\"\nboxes = [{ \"stage.x\" = [0.0, 5.0] }]\n";
        assert_eq!(over(&old, &render(&draft())).as_deref(), Ok(old.as_str()), "nothing new, nothing changed");

        let mut other = draft();
        other.axes[0].travel = [1.0, 60.0];
        other.axes[1].speed = 3.0;
        let new = over(&old, &render(&other)).expect("merged");
        for kept in ["# measured by Ada", "# Ours.", "name = \"lamp\"", "max_speed_per_s = 3.0\n"] {
            assert!(new.contains(kept), "{kept}: {new}");
        }
        assert!(new.contains("travel = [1.0, 60.0]  # from the controller's own limit\n"), "{new}");
        let shown = diff("rig.toml", &old, &new);
        assert!(shown.contains("-travel = [0.5, 75.0]") && shown.contains("+travel = [1.0, 60.0]"), "{shown}");
        assert!(!shown.contains("lamp"), "{shown}");
        assert_eq!(diff("rig.toml", &old, &old), "");
    }

    #[test]
    fn a_second_stage_is_added_and_the_first_stays() {
        let port = Port::Place(Place::Path("/dev/b".into()));
        let second = Draft { stage: "lift".into(), link: "lift-port".into(), port, ..draft() };
        let old = render(&draft());
        let new = over(&old, &render(&second)).expect("merged");
        for id in ["id = \"stage\"", "id = \"stage-port\"", "id = \"lift\"", "id = \"lift-port\""] {
            assert!(new.contains(id), "{id}: {new}");
        }
        let rig = crate::config::parse(&new, std::path::Path::new("rig.toml"), &crate::devices::known());
        let rig = rig.unwrap_or_else(|p| panic!("{}\n{new}", p.render(false)));
        let axes: Vec<usize> = rig.stages.iter().map(|s| s.axes.len()).collect();
        assert_eq!(axes, [3, 3], "each has its own axes: {new}");
    }

    #[test]
    fn an_axis_that_is_new_stands_by_its_stage() {
        let all = Draft { port: Port::Place(Place::Path("/dev/b".into())), ..draft() };
        let few = Draft { axes: all.axes[..1].to_vec(), home: vec!["x".into()], ..all.clone() };
        let other = Draft { stage: "lift".into(), link: "lift-port".into(), ..draft() };
        let two = over(&render(&few), &render(&other)).expect("merged");
        let rig = crate::config::parse(
            &over(&two, &render(&all)).expect("merged"),
            std::path::Path::new("rig.toml"),
            &crate::devices::known(),
        );
        let axes: Vec<usize> = rig.expect("a rig").stages.iter().map(|s| s.axes.len()).collect();
        assert_eq!(axes, [3, 3]);
    }

    #[test]
    fn what_somebody_added_to_the_homing_stays() {
        let old = render(&draft()).replace("\"y\"] }", "\"y\"], timeout_s = 90 }");
        let other = Draft { home: vec!["x".into(), "y".into(), "z".into()], ..draft() };
        let new = over(&old, &render(&other)).expect("merged");
        assert!(new.contains("[\"x\", \"y\", \"z\"], timeout_s = 90"), "{new}");
    }

    #[test]
    fn a_file_that_is_no_toml_is_refused_with_its_line() {
        assert!(over("a = 1\nb = = 2\n", "").is_err_and(|e| e.contains("line 2")));
    }
}
