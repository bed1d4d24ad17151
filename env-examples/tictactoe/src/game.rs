//! The board, the rules and perfect play. Knows nothing of agents, prompts or rewards.

/// A player's mark. X moves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The first to move.
    X,
    /// The second to move.
    O,
}

impl Mark {
    /// The other player.
    pub const fn other(self) -> Mark {
        match self {
            Mark::X => Mark::O,
            Mark::O => Mark::X,
        }
    }

    /// The mark as it is drawn, which is also the agent's name.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::X => "x",
            Mark::O => "o",
        }
    }
}

/// The rows, columns and diagonals as bit sets: a row of the board is an octal digit.
const LINES: [u16; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];
const ALL: u16 = 0o777;
/// Each cell is free, x or o.
const POSITIONS: usize = 3_usize.pow(9);
/// No position has this value.
const UNSOLVED: i8 = i8::MIN;

/// The value of every position that play can reach, for the player to move; see [`solve`].
/// Worked out by the compiler: an episode is too short to earn it back.
static VALUES: [i8; POSITIONS] = {
    let mut values = [UNSOLVED; POSITIONS];
    solve(Board::EMPTY, &mut values);
    values
};

/// A position: which cells each player holds. Cells are numbered from 0, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Board {
    x: u16,
    o: u16,
}

impl Board {
    /// The position before the first move.
    pub const EMPTY: Board = Board { x: 0, o: 0 };

    /// How many moves have been made.
    pub const fn moves(self) -> usize {
        (self.x | self.o).count_ones() as usize
    }

    /// Whose move it is.
    pub const fn turn(self) -> Mark {
        if self.moves().is_multiple_of(2) { Mark::X } else { Mark::O }
    }

    /// Whether nobody holds this cell.
    pub const fn is_free(self, cell: usize) -> bool {
        (self.x | self.o) & (1 << cell) == 0
    }

    /// The cells that may be taken, in order.
    pub fn free(self) -> impl Iterator<Item = usize> {
        (0..9).filter(move |&cell| self.is_free(cell))
    }

    /// The position after the player to move takes a free cell.
    pub const fn play(self, cell: usize) -> Board {
        match self.turn() {
            Mark::X => Board { x: self.x | 1 << cell, o: self.o },
            Mark::O => Board { x: self.x, o: self.o | 1 << cell },
        }
    }

    /// Whether this player has three in a line.
    pub const fn has_line(self, mark: Mark) -> bool {
        let held = match mark {
            Mark::X => self.x,
            Mark::O => self.o,
        };
        let mut line = 0;
        while line < LINES.len() {
            if held & LINES[line] == LINES[line] {
                return true;
            }
            line += 1;
        }
        false
    }

    /// Who has won, if anybody.
    pub fn winner(self) -> Option<Mark> {
        [Mark::X, Mark::O].into_iter().find(|&mark| self.has_line(mark))
    }

    /// Whether no cell is free.
    pub const fn is_full(self) -> bool {
        self.x | self.o == ALL
    }

    /// The moves of perfect play, in order; none when the game is over.
    pub fn best_moves(self) -> Vec<usize> {
        let value = VALUES[self.index()];
        if self.winner().is_some() {
            return vec![];
        }
        self.free().filter(|&cell| -VALUES[self.play(cell).index()] == value).collect()
    }

    /// Three lines of three cells: `x`, `o`, or the number of a free cell, counted from 1.
    /// Always 17 characters.
    pub fn draw(self) -> String {
        let cell = |cell: usize| match (self.x >> cell & 1, self.o >> cell & 1) {
            (1, _) => 'x',
            (_, 1) => 'o',
            _ => (b'1' + cell as u8) as char,
        };
        let row = |row: usize| format!("{} {} {}", cell(row), cell(row + 1), cell(row + 2));
        [row(0), row(3), row(6)].join("\n")
    }

    /// This position's place in [`VALUES`]: the cells as digits to the base 3.
    const fn index(self) -> usize {
        let mut index = 0;
        let mut cell = 9;
        while cell > 0 {
            cell -= 1;
            index = index * 3 + (self.x >> cell & 1) as usize + 2 * (self.o >> cell & 1) as usize;
        }
        index
    }
}

/// Solves a position and all that follow it by minimax, and returns its value for the player to
/// move: 0 for a draw, positive for a win, negative for a loss, larger the sooner it comes.
const fn solve(board: Board, values: &mut [i8; POSITIONS]) -> i8 {
    let index = board.index();
    if values[index] != UNSOLVED {
        return values[index];
    }
    let mut value = 0;
    if board.has_line(board.turn().other()) {
        value = board.moves() as i8 - 10;
    } else if !board.is_full() {
        value = -10;
        let mut cell = 0;
        while cell < 9 {
            if board.is_free(cell) {
                let reached = -solve(board.play(cell), values);
                value = if reached > value { reached } else { value };
            }
            cell += 1;
        }
    }
    values[index] = value;
    value
}

#[cfg(test)]
mod tests {
    use super::{Board, Mark};

    fn board(moves: &[usize]) -> Board {
        moves.iter().fold(Board::EMPTY, |board, &cell| board.play(cell))
    }

    /// Plays every game in which `perfect` makes any of its best moves and the other anything.
    fn worst_for(perfect: Mark, board: Board) -> i32 {
        match board.winner() {
            Some(winner) => return if winner == perfect { 1 } else { -1 },
            None if board.is_full() => return 0,
            None => {}
        }
        let cells =
            if board.turn() == perfect { board.best_moves() } else { board.free().collect() };
        cells
            .into_iter()
            .map(|cell| worst_for(perfect, board.play(cell)))
            .min()
            .expect("an unfinished game has a move")
    }

    #[test]
    fn perfect_play_never_loses() {
        assert_eq!(worst_for(Mark::X, Board::EMPTY), 0);
        assert_eq!(worst_for(Mark::O, Board::EMPTY), 0);
    }

    #[test]
    fn perfect_play_takes_the_quickest_win_and_blocks() {
        assert_eq!(board(&[0, 3, 1, 4]).best_moves(), [2]);
        assert_eq!(board(&[0, 4, 1]).best_moves(), [2]);
        assert_eq!(board(&[0]).best_moves(), [4]);
        assert_eq!(Board::EMPTY.best_moves().len(), 9);
        assert!(board(&[0, 3, 1, 4, 2]).best_moves().is_empty());
    }

    #[test]
    fn the_board_is_drawn_in_one_layout() {
        assert_eq!(Board::EMPTY.draw(), "1 2 3\n4 5 6\n7 8 9");
        assert_eq!(board(&[8, 4]).draw(), "1 2 3\n4 o 6\n7 8 x");
    }

    #[test]
    fn all_eight_lines_win() {
        let lines = ["012", "345", "678", "036", "147", "258", "048", "246"];
        for line in lines {
            let bits = line.bytes().fold(0, |bits, cell| bits | 1 << (cell - b'0'));
            assert_eq!(Board { x: bits, o: 0 }.winner(), Some(Mark::X), "{line}");
        }
        assert_eq!(board(&[0, 1, 2, 3, 4, 6]).winner(), None);
    }
}
