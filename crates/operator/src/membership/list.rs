//! `fedgate cells list`, and the layout of lists.

use super::{
    args::{ListArgs, ListFormat},
    cluster::Cluster,
    usage::{self, names_cell},
};
use fedgate_terminal::{
    error::Error,
    table::{Cell, Table, escape},
    time,
    write::write,
};
use jiff::Timestamp;
use serde_json::{Value, json};

const COLUMNS: [&str; 11] = [
    "NAME",
    "CITY",
    "OPEN",
    "READY",
    "MODE",
    "BINDINGS",
    "CELLS-IN-CITY",
    "MADE-BY",
    "AGE",
    "ENDPOINT",
    "VERSION",
];
/// Columns of the narrow form.
const NARROW: usize = 9;

/// Runs the command.
pub(super) async fn run(args: &ListArgs) -> Result<(), Error> {
    let hub = super::open_hub(&args.hub).await?;
    let clusters = hub.clusters().await?;
    let bindings = usage::list_bindings(&hub).await?;
    let rows = rows(&clusters, &bindings, Timestamp::now());
    print(args.output, "Cell", &COLUMNS, NARROW, &rows)
}

fn rows(clusters: &[Value], bindings: &[Value], now: Timestamp) -> Vec<Vec<String>> {
    let all = || clusters.iter().map(Cluster);
    let of_city = |city: &str| all().filter(|other| other.city() == Some(city)).count();
    let row = |cluster: Cluster<'_>| {
        let text = |path| cluster.0.pointer(path).and_then(Value::as_str).unwrap_or("-");
        let (name, city) = (cluster.name(), cluster.city());
        let used = bindings
            .iter()
            .filter(|binding| names_cell(binding, name))
            .count();
        let row = [
            name,
            city.unwrap_or("-"),
            &(city.is_some() && !cluster.is_cordoned()).to_string(),
            cluster.condition("Ready").unwrap_or("Unknown"),
            text("/spec/syncMode"),
            &used.to_string(),
            &city.map_or(0, of_city).to_string(),
            cluster.maker(),
            &age(text("/metadata/creationTimestamp"), now),
            text("/spec/apiEndpoint"),
            text("/status/kubernetesVersion"),
        ];
        row.map(str::to_owned).into()
    };
    let mut rows: Vec<Vec<String>> = all().map(row).collect();
    rows.sort();
    rows
}

/// The age of a timestamp of a server.
pub(super) fn age(since: &str, now: Timestamp) -> String {
    let since = since.parse::<Timestamp>();
    since.map_or_else(|_| "-".to_owned(), |since| time::age(since, now))
}

/// Prints rows in a format. `noun` is the kind in JSON and YAML; the first column is the name. All forms but the wide one have
/// the first `narrow` columns.
pub(super) fn print(
    format: ListFormat,
    noun: &str,
    columns: &'static [&'static str],
    narrow: usize,
    rows: &[Vec<String>],
) -> Result<(), Error> {
    let text = match format {
        ListFormat::Table => table(columns, narrow, rows),
        ListFormat::Wide => table(columns, columns.len(), rows),
        ListFormat::Name => rows.iter().map(|row| escape(&row[0]) + "\n").collect(),
        ListFormat::Json => format!("{:#}\n", document(noun, &columns[..narrow], rows)),
        ListFormat::Yaml => super::yaml(&document(noun, &columns[..narrow], rows))?,
    };
    write(&text)
}

fn table(columns: &'static [&'static str], shown: usize, rows: &[Vec<String>]) -> String {
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row.iter().map(|cell| Cell::from(cell.as_str())).collect());
    }
    table.text(shown, true, false)
}

/// A document of the rows: one object for each, with a field for each column.
fn document(noun: &str, columns: &[&str], rows: &[Vec<String>]) -> Value {
    let field = |column: &str| -> String {
        let mut words = column.split('-').map(str::to_lowercase);
        let first = words.next().unwrap_or_default();
        words.fold(first, |field, word| {
            let (head, tail) = word.split_at(1);
            format!("{field}{}{tail}", head.to_uppercase())
        })
    };
    let item = |row: &Vec<String>| -> Value {
        let cells = columns.iter().zip(row);
        cells.map(|(column, cell)| (field(column), json!(cell))).collect()
    };
    let items: Vec<Value> = rows.iter().map(item).collect();
    json!({"apiVersion": "cli.fedgate.dev/v1", "kind": format!("{noun}List"), "items": items})
}

#[cfg(test)]
mod tests {
    use super::{
        super::{cluster::tests::cluster, usage::tests::binding},
        *,
    };

    #[test]
    fn each_cluster_of_the_hub_is_a_row() {
        let mut foreign = cluster("dfw-1", "1", Some("DFW"));
        foreign["metadata"]["annotations"] = json!({});
        let mut by_role = cluster("lhr-1", "3", None);
        by_role["metadata"]["labels"] = json!({"fedgate.dev/made-by": "provisioner"});
        let clusters = [cluster("dfw-2", "2", Some("DFW")), foreign, by_role];
        let now = "2026-01-01T02:00:00Z".parse().unwrap();
        let rows = rows(&clusters, &[binding(&["dfw-1"], &[])], now);
        assert_eq!(
            table(&COLUMNS, NARROW, &rows),
            "NAME    CITY   OPEN    READY   MODE   BINDINGS   CELLS-IN-CITY   MADE-BY       AGE\n\
             dfw-1   DFW    true    True    Push   1          2               other         2h\n\
             dfw-2   DFW    true    True    Push   0          2               command       2h\n\
             lhr-1   -      false   True    Push   0          0               provisioner   2h\n"
        );
        let json = document("Cell", &COLUMNS, &rows);
        assert_eq!(json["items"][0]["cellsInCity"], "2");
        assert_eq!(json["kind"], "CellList");
    }
}
