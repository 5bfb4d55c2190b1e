//! The matrix as Markdown, and its place in a file.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Came, Cell, Row, in_words};

/// The line before the table.
pub const BEGIN: &str = "<!-- matrix: begins -->";
/// The line after it.
pub const END: &str = "<!-- matrix: ends -->";

/// What it was run from, a row per fault, a column per store, the reasons below,
/// and how to run cells of this length again.
#[must_use]
pub fn table(cells: &[Cell], length: Duration, commit: &str) -> String {
    let (stores, rows) = heads(cells);
    let mut text = format!("Run from {commit}, a cell for {}.\n\n", in_words(length));
    text += &format!("| what happens | {} |\n", stores.join(" | "));
    text.push_str("| --- |");
    text.push_str(&" --- |".repeat(stores.len()));
    text.push('\n');
    let mut reasons = Reasons::default();
    for &row in &rows {
        text.push_str(&format!("| {} |", row.name()));
        for store in &stores {
            let mut cells = cells.iter();
            let cell = cells.find(|cell| cell.row == row && cell.store == *store);
            let field = cell.map_or_else(String::new, |cell| field(cell, &mut reasons));
            text.push_str(&format!(" {field} |"));
        }
        text.push('\n');
    }
    for (number, why) in reasons.texts.iter().enumerate() {
        text.push_str(&format!("\n{}. {why}", number + 1));
    }
    if !reasons.texts.is_empty() {
        text.push('\n');
    }
    text.push_str(&again(&rows, length));
    text
}

/// The columns and the rows that these cells make up.
pub(super) fn heads(cells: &[Cell]) -> (Vec<&'static str>, Vec<Row>) {
    let mut stores = Vec::new();
    let mut rows = Vec::new();
    for cell in cells {
        if !stores.contains(&cell.store) {
            stores.push(cell.store);
        }
        if !rows.contains(&cell.row) {
            rows.push(cell.row);
        }
    }
    (stores, rows)
}

/// The commands that run a cell again, one for each kind of row.
fn again(rows: &[Row], length: Duration) -> String {
    let mut commands = BTreeMap::new();
    for row in rows {
        let (number, row, remark) = match row {
            // They have a ttl of their own.
            Row::Fenced(_) if row.has_long_ttl() => (3, *row, "  # failover"),
            Row::Unfenced(_) if row.has_long_ttl() => (4, *row, "  # failover, no fence"),
            Row::Fenced(_) => (1, Row::Fenced("FAULT"), ""),
            Row::Unfenced(_) => (2, Row::Unfenced("FAULT"), "  # no fence"),
            Row::Permits => (5, Row::Permits, "  # several, two permits"),
        };
        let command = row.again("STORE", "N", length);
        let line = format!("cargo run -p leasehold-lab -- {command}{remark}\n");
        commands.insert(number, line);
    }
    let commands: String = commands.into_values().collect();
    format!("\n### A cell again\n\nWith a page of it; N is its number:\n\n```sh\n{commands}```\n")
}

/// Reasons why cells were skipped, each once.
#[derive(Debug, Default)]
struct Reasons {
    texts: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Reasons {
    fn number(&mut self, why: &str) -> usize {
        if let Some(&number) = self.numbers.get(why) {
            return number;
        }
        self.texts.push(why.to_owned());
        self.numbers.insert(why.to_owned(), self.texts.len());
        self.texts.len()
    }
}

/// What came, as a link to its picture if there is one, and its number, as a link
/// to the command.
fn field(cell: &Cell, reasons: &mut Reasons) -> String {
    let words = match &cell.came {
        Came::Held => "held".to_owned(),
        Came::OutOfOrder(count) => format!("{count} out of order"),
        Came::TwoBelieved(_) => match cell.row {
            Row::Unfenced(_) => "**two believed**".to_owned(),
            _ => "two believed, none stale written".to_owned(),
        },
        Came::Lost(count) => format!("**{count} lost**"),
        Came::Broken(_) => "**BROKEN**".to_owned(),
        Came::Failed(_) => "**FAILED**".to_owned(),
        Came::Skipped(why) => return format!("skipped: {}", reasons.number(why)),
    };
    let words = match &cell.picture {
        Some(path) => format!("[{words}]({path})"),
        None => words,
    };
    format!("{words} ([{}](#a-cell-again))", cell.seed)
}

/// The file with this text between its marks.
///
/// # Errors
/// If it has no such marks, for people.
pub fn put_between_marks(file: &str, text: &str) -> Result<String, String> {
    let lacks = || format!("there is no {BEGIN} before a {END}");
    let (before, rest) = file.split_once(BEGIN).ok_or_else(lacks)?;
    let (_, after) = rest.split_once(END).ok_or_else(lacks)?;
    Ok(format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::KINDS;

    fn cell(store: &'static str, fault: &'static str, seed: u64, came: Came) -> Cell {
        let row = Row::Fenced(fault);
        Cell {
            store,
            row,
            seed,
            came,
            has_page: true,
            picture: None,
        }
    }

    #[test]
    fn the_table_has_a_row_per_fault_and_each_reason_once() {
        let why = || Came::Skipped("no server".into());
        let picture = Some("two.svg".to_owned());
        let cells = [
            cell("a", "kill", 1, Came::Held),
            Cell {
                picture,
                ..cell("b", "kill", 2, Came::TwoBelieved(3))
            },
            cell("a", "cut", 3, why()),
            cell("b", "cut", 4, why()),
            cell("a", "clock", 5, Came::OutOfOrder(2)),
            cell("b", "clock", 6, Came::Failed("no port".into())),
        ];
        let expected = "\
Run from here, a cell for 1500ms.

| what happens | a | b |
| --- | --- | --- |
| kill | held ([1](#a-cell-again)) | [two believed, none stale written](two.svg) ([2](#a-cell-again)) |
| cut | skipped: 1 | skipped: 1 |
| clock | 2 out of order ([5](#a-cell-again)) | **FAILED** ([6](#a-cell-again)) |

1. no server

### A cell again

With a page of it; N is its number:

```sh
cargo run -p leasehold-lab -- torture --store STORE --seed N --for 1500ms --faults FAULT
```
";
        assert_eq!(
            table(&cells, Duration::from_millis(1_500), "here"),
            expected
        );
    }

    #[test]
    fn the_table_of_this_repository_has_all_rows_and_nothing_in_it_is_broken() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../GUARANTEES.md");
        let file = std::fs::read_to_string(file).unwrap();
        let (_, rest) = file.split_once(BEGIN).unwrap();
        let (text, _) = rest.split_once(END).unwrap();
        let lines = text.lines().filter(|line| line.starts_with('|'));
        let lines = lines.map(|line| line.trim_matches('|').split('|').map(str::trim));
        let mut lines = lines.map(Iterator::collect::<Vec<_>>);
        let stores = KINDS.iter().map(|kind| kind.name);
        let heads: Vec<_> = std::iter::once("what happens").chain(stores).collect();
        assert_eq!(lines.next(), Some(heads));
        let rows: Vec<_> = lines.skip(1).collect();
        let names: Vec<_> = rows.iter().map(|row| row[0].to_owned()).collect();
        let all = Row::all();
        assert_eq!(names, all.iter().map(|row| row.name()).collect::<Vec<_>>());
        for row in rows {
            assert_eq!(row.len(), KINDS.len() + 1, "{row:?}");
            let is_well = |cell: &&str| {
                let words = ["held", "skipped: ", "two believed", "lost", "out of order"];
                words.iter().any(|word| cell.contains(word))
            };
            assert!(row[1..].iter().all(is_well), "{row:?}");
        }
        let length = text
            .split("--for ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let length = leasehold::parse_duration(length.unwrap()).unwrap();
        assert!(
            text.contains(&again(&all, length)),
            "{}",
            again(&all, length)
        );
    }

    #[test]
    fn it_goes_between_its_marks_and_nowhere_else() {
        let file = format!("x\n{BEGIN}\nold\n{END}\ny\n");
        let once = put_between_marks(&file, "new\n").unwrap();
        assert_eq!(once, format!("x\n{BEGIN}\n\nnew\n\n{END}\ny\n"));
        assert_eq!(put_between_marks(&once, "new\n").unwrap(), once);
        assert!(put_between_marks("nothing", "new").is_err());
    }
}
