//! Single rows of a column: copies of chosen ones, and their bytes one by one.
//!
//! Must not be here: what the bytes mean.

use super::{ArrayColumn, Column, FixedColumn, NullableColumn, TextColumn};

impl FixedColumn {
    fn pick(&self, rows: &[usize]) -> Self {
        let mut picked = Self::new(self.width);
        picked.data.reserve(rows.len() * self.width);
        for &row in rows {
            picked.data.extend_from_slice(self.bytes_of(row..row + 1));
        }
        picked
    }
}

impl TextColumn {
    fn pick(&self, rows: &[usize]) -> Self {
        let texts: Vec<&[u8]> = self.texts().collect();
        let mut picked = Self::default();
        for &row in rows {
            picked.push(texts.get(row).copied().unwrap_or_default());
        }
        picked
    }
}

impl ArrayColumn {
    fn pick(&self, rows: &[usize]) -> Self {
        let mut offsets = FixedColumn::new(self.offsets.width);
        let mut elements = Vec::new();
        for &row in rows {
            elements.extend(self.start_of(row)..self.end_of(row));
            offsets
                .data
                .extend_from_slice(&(elements.len() as u64).to_le_bytes());
        }
        Self {
            offsets,
            inner: self.inner.pick(&elements),
        }
    }
}

impl Column {
    /// Copies of the rows, in the order given; each must be there.
    pub(crate) fn pick(&self, rows: &[usize]) -> Self {
        match self {
            Self::Fixed(column) => Self::Fixed(column.pick(rows)),
            Self::Text(column) => Self::Text(column.pick(rows)),
            Self::Dictionary(column) => {
                let mut picked = column.fresh(0);
                for &row in rows {
                    picked.append(column, row..row + 1);
                }
                Self::Dictionary(Box::new(picked))
            }
            Self::Nullable(column) => Self::Nullable(Box::new(NullableColumn {
                nulls: column.nulls.pick(rows),
                inner: column.inner.pick(rows),
            })),
            Self::Array(column) => Self::Array(Box::new(column.pick(rows))),
            Self::Tuple(elements) => {
                Self::Tuple(elements.iter().map(|element| element.pick(rows)).collect())
            }
        }
    }

    /// The bytes of every row's value, `None` for NULL; `None` for a column of arrays, maps or tuples.
    pub(crate) fn values(&self) -> Option<Vec<Option<&[u8]>>> {
        match self {
            Self::Fixed(column) => Some(
                (0..column.rows())
                    .map(|row| Some(column.bytes_of(row..row + 1)))
                    .collect(),
            ),
            Self::Text(column) => Some(column.texts().map(Some).collect()),
            Self::Dictionary(column) => {
                Some((0..column.rows()).map(|row| column.value_at(row)).collect())
            }
            Self::Nullable(column) => {
                let mut values = column.inner.values()?;
                for (value, null) in values.iter_mut().zip(&column.nulls.data) {
                    *value = value.filter(|_| *null == 0);
                }
                Some(values)
            }
            Self::Array(_) | Self::Tuple(_) => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::column::dictionary::{Dictionary, EntryShape};

    const ROWS: usize = 40;

    fn fixed(width: usize, seed: u64) -> Column {
        let mut column = FixedColumn::new(width);
        for row in 0..ROWS as u64 {
            let bytes = (seed * 1000 + row).to_le_bytes();
            column.data.extend(bytes.iter().cycle().take(width));
        }
        Column::Fixed(column)
    }

    fn text() -> Column {
        let mut column = TextColumn::default();
        (0..ROWS).for_each(|row| column.push(&vec![b'a'; row * 7 % 300]));
        Column::Text(column)
    }

    fn dictionary(shape: EntryShape, nullable: bool) -> Column {
        let mut column = Dictionary::new(shape, nullable);
        for row in 0..ROWS {
            match (row % 3, shape) {
                (0, _) if nullable => column.push_null(),
                (_, EntryShape::Text) => column.push(format!("value {}", row % 5).as_bytes()),
                (_, EntryShape::Fixed(width)) => {
                    column.push(&vec![u8::try_from(row % 7).unwrap(); width]);
                }
            }
        }
        Column::Dictionary(Box::new(column))
    }

    fn nullable(inner: Column) -> Column {
        let mut nulls = FixedColumn::new(1);
        nulls.data = (0..ROWS).map(|row| u8::from(row % 4 == 1)).collect();
        Column::Nullable(Box::new(NullableColumn { nulls, inner }))
    }

    /// Rows of 0, 1, 2, … elements, taken from the inner column again and again.
    fn array(inner: &Column) -> Column {
        let Column::Array(mut column) = Column::array(inner.fresh(0)) else {
            unreachable!("an array was made");
        };
        for row in 0..ROWS {
            (0..row % 4).for_each(|element| {
                column
                    .inner
                    .append(inner, (row + element) % ROWS..(row + element) % ROWS + 1);
            });
            column.end_row();
        }
        Column::Array(column)
    }

    /// Every kind of column, and kinds inside kinds.
    fn columns() -> Vec<Column> {
        let tuple = Column::Tuple(vec![text(), fixed(8, 1), nullable(text())]);
        vec![
            fixed(1, 2),
            fixed(8, 3),
            fixed(32, 4),
            text(),
            dictionary(EntryShape::Text, false),
            dictionary(EntryShape::Text, true),
            dictionary(EntryShape::Fixed(4), true),
            nullable(fixed(16, 5)),
            nullable(text()),
            array(&text()),
            array(&array(&nullable(fixed(2, 6)))),
            array(&dictionary(EntryShape::Text, true)),
            array(&Column::Tuple(vec![text(), fixed(4, 7)])),
            tuple,
        ]
    }

    /// The same, row by row through the way that slices take.
    fn appended(column: &Column, rows: &[usize]) -> Column {
        let mut to = column.fresh(0);
        for &row in rows {
            to.append(column, row..row + 1);
        }
        to
    }

    #[test]
    fn a_picked_range_is_the_slice() {
        for column in columns() {
            assert_eq!(column.rows(), ROWS);
            let rows: Vec<usize> = (5..30).collect();
            assert_eq!(column.pick(&rows), column.slice(5..30));
            let all: Vec<usize> = (0..ROWS).collect();
            assert_eq!(column.pick(&all), column.slice(0..ROWS));
            assert_eq!(column.pick(&[]).rows(), 0);
        }
    }

    #[test]
    fn values_are_the_bytes_of_the_rows() {
        let values = |column: &Column| {
            let values = column.values()?;
            Some(
                values
                    .iter()
                    .map(|value| value.map(<[u8]>::to_vec))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            values(&fixed(2, 0)).unwrap()[..2],
            [Some(vec![0, 0]), Some(vec![1, 0])]
        );
        assert_eq!(values(&text()).unwrap()[1], Some(vec![b'a'; 7]));
        let nulls = values(&nullable(text())).unwrap();
        assert_eq!((&nulls[1], &nulls[2]), (&None, &Some(vec![b'a'; 14])));
        let dictionary = values(&dictionary(EntryShape::Text, true)).unwrap();
        assert_eq!(
            (&dictionary[0], &dictionary[1]),
            (&None, &Some(b"value 1".to_vec()))
        );
        assert_eq!(values(&array(&text())), None);
    }

    proptest! {
        #[test]
        fn picked_rows_are_the_rows_appended_one_by_one(rows in prop::collection::vec(0..ROWS, 0..60)) {
            for column in columns() {
                prop_assert_eq!(column.pick(&rows), appended(&column, &rows));
            }
        }
    }
}
