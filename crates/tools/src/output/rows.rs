//! Results that share their fields, on stdout in any format. All but the table are streamed.
//! Used by the verbs through `Context::rows`, and by the file dumps, which may be long.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::pairs::csv_line;
use super::{Format, Record, label, object};
use crate::bytes::escape;

/// Writes rows. Call [`finish`](Self::finish) at the end: tables are drawn there.
pub(crate) struct RowWriter<W: Write> {
    out: W,
    format: Format,
    header: Vec<&'static str>,
    written: u64,
    table: Table,
}

impl<W: Write> RowWriter<W> {
    pub(crate) fn new(out: W, format: Format, names: &[&'static str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(names.iter().map(|name| label(name)));
        RowWriter { out, format, header: names.to_vec(), written: 0, table }
    }

    /// The output itself, for text that is not made of rows.
    pub(crate) fn out(&mut self) -> &mut W {
        &mut self.out
    }

    pub(crate) fn write(&mut self, row: &Record) -> io::Result<()> {
        match self.format {
            Format::Table => self.table_row(row),
            Format::Json => {
                let opening = if self.written == 0 { "[\n" } else { ",\n" };
                write!(self.out, "{opening}{}", object(row))?;
            }
            Format::Jsonl => writeln!(self.out, "{}", object(row))?,
            Format::Csv => {
                self.csv_header()?;
                let texts: Vec<String> = row.iter().map(|(_, cell)| cell.plain()).collect();
                writeln!(self.out, "{}", csv_line(&texts))?;
            }
            Format::Raw => {
                let texts: Vec<String> =
                    row.iter().map(|(_, cell)| escape(cell.plain().as_bytes())).collect();
                writeln!(self.out, "{}", texts.join("\t"))?;
            }
        }
        self.written += 1;
        Ok(())
    }

    /// Ends the rows and gives the output back, flushed.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        match self.format {
            Format::Table => {
                for line in self.table.lines() {
                    let line = line.strip_prefix(" ").unwrap_or(&line);
                    writeln!(self.out, "{}", line.trim_end())?;
                }
            }
            Format::Json if self.written == 0 => writeln!(self.out, "[]")?,
            Format::Json => writeln!(self.out, "\n]")?,
            Format::Csv => self.csv_header()?,
            Format::Jsonl | Format::Raw => {}
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn csv_header(&mut self) -> io::Result<()> {
        if self.header.is_empty() {
            return Ok(());
        }
        let names = std::mem::take(&mut self.header);
        writeln!(self.out, "{}", csv_line(&names))
    }

    fn table_row(&mut self, row: &Record) {
        self.table.add_row(row.iter().map(|(_, cell)| {
            let shown = comfy_table::Cell::new(cell.human());
            if cell.is_number() { shown.set_alignment(CellAlignment::Right) } else { shown }
        }));
    }
}
