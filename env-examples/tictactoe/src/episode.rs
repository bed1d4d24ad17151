//! One game from the view of the agents: what each is told, what its answers do, how it ends.
//! Knows nothing of the contract's records.

use crate::game::{Board, Mark};
use crate::random::{Use, draw};
use crate::settings::{Opponent, Settings};

/// A game in progress.
#[derive(Debug)]
pub struct Episode {
    /// Who plays whom; never changes.
    settings: Settings,
    /// The task's random key; never changes.
    key: u64,
    /// The position; every legal move changes it.
    board: Board,
}

/// Where a game stands after `start` or `answer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// An agent must answer.
    Ask {
        /// The agent.
        agent: Mark,
        /// What it is told.
        text: String,
        /// The answers that are legal.
        choices: Vec<String>,
    },
    /// The game is over.
    Over(Outcome),
}

/// How a game ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Who won; none for a draw.
    pub winner: Option<Mark>,
    /// Who lost by an illegal answer, if anybody.
    pub offender: Option<Mark>,
    /// How many moves were made.
    pub moves: usize,
}

impl Outcome {
    /// The reward part `win`: 1 for a win, 0.5 for a draw, 0 for a loss.
    pub fn win(self, agent: Mark) -> f64 {
        match self.winner {
            Some(winner) if winner == agent => 1.0,
            Some(_) => 0.0,
            None => 0.5,
        }
    }

    /// The reward part `legal`: 0 for the agent whose illegal answer ended the game, else 1.
    pub fn legal(self, agent: Mark) -> f64 {
        if self.offender == Some(agent) { 0.0 } else { 1.0 }
    }
}

impl Episode {
    /// Sets up the board and lets the opponent move if it is first.
    pub fn start(settings: Settings, key: u64) -> (Episode, Moment) {
        let mut episode = Episode { settings, key, board: Board::EMPTY };
        let moment = episode.proceed();
        (episode, moment)
    }

    /// What this game is played with.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The agents that the policy plays.
    pub fn agents(&self) -> &'static [Mark] {
        match (self.settings.opponent, self.settings.play_as) {
            (Opponent::Itself, _) => &[Mark::X, Mark::O],
            (_, Mark::X) => &[Mark::X],
            (_, Mark::O) => &[Mark::O],
        }
    }

    /// Takes the answer of the agent that was asked.
    pub fn answer(&mut self, content: &str) -> Moment {
        let agent = self.board.turn();
        match content.trim().as_bytes() {
            [digit @ b'1'..=b'9'] if self.board.is_free(usize::from(digit - b'1')) => {
                self.board = self.board.play(usize::from(digit - b'1'));
                self.proceed()
            }
            _ => Moment::Over(Outcome {
                winner: Some(agent.other()),
                offender: Some(agent),
                moves: self.board.moves(),
            }),
        }
    }

    /// The agent that is asked, while the game goes on.
    pub fn asked(&self) -> Mark {
        self.board.turn()
    }

    /// What a perfect player would answer now; none when the game is over.
    pub fn advice(&self) -> Option<String> {
        self.pick(Use::Expert, &self.board.best_moves()).map(label)
    }

    /// Lets the opponent move until an agent must answer or the game is over.
    fn proceed(&mut self) -> Moment {
        loop {
            let winner = self.board.winner();
            if winner.is_some() || self.board.is_full() {
                return Moment::Over(Outcome { winner, offender: None, moves: self.board.moves() });
            }
            if self.agents().contains(&self.board.turn()) {
                return self.ask();
            }
            let cells = match self.settings.opponent {
                Opponent::Minimax => self.board.best_moves(),
                Opponent::Random | Opponent::Itself => self.board.free().collect(),
            };
            let cell = self.pick(Use::Opponent, &cells).expect("an unfinished game has a move");
            self.board = self.board.play(cell);
        }
    }

    /// The prompt: the board, under the rules when it is the agent's first. Short and always in
    /// one layout, because a policy reads every character of it.
    fn ask(&self) -> Moment {
        let agent = self.board.turn();
        let board = self.board.draw();
        let text = match self.board.moves() {
            0 | 1 => {
                let name = agent.name();
                format!("Tic-tac-toe, you are {name}. Answer with a free cell.\n{board}")
            }
            _ => board,
        };
        Moment::Ask { agent, text, choices: self.board.free().map(label).collect() }
    }

    fn pick(&self, purpose: Use, cells: &[usize]) -> Option<usize> {
        let count = cells.len();
        (count > 0).then(|| cells[draw(self.key, purpose, self.board.moves(), count)])
    }
}

/// A cell as it is drawn and answered: `"1"` to `"9"`.
fn label(cell: usize) -> String {
    (cell + 1).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Episode, Moment, Outcome};
    use crate::game::Mark;
    use crate::random::key;
    use crate::settings::{Opponent, Settings};

    fn play(opponent: Opponent, play_as: Mark, task: u64) -> Outcome {
        let (mut episode, mut moment) =
            Episode::start(Settings { opponent, play_as }, key("train", task, 0));
        loop {
            match moment {
                Moment::Over(outcome) => return outcome,
                Moment::Ask { choices, .. } => {
                    let advice = episode.advice().expect("the game goes on");
                    assert!(choices.contains(&advice));
                    moment = episode.answer(&advice);
                }
            }
        }
    }

    #[test]
    fn the_expert_draws_with_minimax_and_does_not_lose_to_random() {
        for task in 0..200 {
            for agent in [Mark::X, Mark::O] {
                assert_eq!(play(Opponent::Minimax, agent, task).winner, None);
                assert_ne!(play(Opponent::Random, agent, task).winner, Some(agent.other()));
            }
            assert_eq!(play(Opponent::Itself, Mark::X, task).winner, None);
        }
    }

    #[test]
    fn prompts_are_the_rules_once_and_then_boards() {
        let settings = Settings { opponent: Opponent::Itself, play_as: Mark::X };
        let (mut episode, first) = Episode::start(settings, 0);
        let Moment::Ask { agent, text, choices } = first else { panic!("{first:?}") };
        assert_eq!((agent, choices.len()), (Mark::X, 9));
        assert_eq!(text, "Tic-tac-toe, you are x. Answer with a free cell.\n1 2 3\n4 5 6\n7 8 9");
        let Moment::Ask { text, .. } = episode.answer(" 9\n") else { panic!("x took a free cell") };
        assert_eq!(text, "Tic-tac-toe, you are o. Answer with a free cell.\n1 2 3\n4 5 6\n7 8 x");
        let Moment::Ask { text, choices, .. } = episode.answer("5") else { panic!("5 is free") };
        assert_eq!(text, "1 2 3\n4 o 6\n7 8 x");
        assert_eq!(choices.join(""), "1234678");
    }

    #[test]
    fn an_illegal_answer_loses_the_game_and_the_part_legal() {
        for answer in ["9", "0", "", "cell 1", "11", "é"] {
            let settings = Settings { opponent: Opponent::Itself, play_as: Mark::X };
            let (mut episode, _) = Episode::start(settings, 0);
            episode.answer("9");
            let moment = episode.answer(answer);
            let Moment::Over(outcome) = moment else { panic!("{answer:?}: {moment:?}") };
            assert_eq!((outcome.win(Mark::X), outcome.legal(Mark::X)), (1.0, 1.0), "{answer:?}");
            assert_eq!((outcome.win(Mark::O), outcome.legal(Mark::O)), (0.0, 0.0), "{answer:?}");
            assert_eq!(outcome.moves, 1);
        }
    }

    #[test]
    fn the_opponent_moves_first_against_o_and_differs_between_tasks() {
        let settings = Settings { opponent: Opponent::Random, play_as: Mark::O };
        let firsts: std::collections::BTreeSet<String> = (0..100)
            .map(|task| match Episode::start(settings, key("train", task, 0)).1 {
                Moment::Ask { agent: Mark::O, text, choices } if choices.len() == 8 => text,
                moment => panic!("{moment:?}"),
            })
            .collect();
        assert_eq!(firsts.len(), 9);
    }
}
