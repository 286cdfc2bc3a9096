"""An oracle for R2D2, in plain loops over the steps of each sequence."""

import numpy as np
import torch

from tests.algos import oracle
from tests.algos.streams import ACTIONS, B


@torch.no_grad()
def act(agent, r, state):
    """Store the recurrent states before and after the rollout `r` in `r`, as a sampler does."""
    state = torch.zeros(B, agent.state_size) if state is None else state
    r.state = state.clone()
    for t in range(r.T):
        _, after = agent.model(r.observations(t), (r.age[t] == 0)[None], state)
        state = torch.cat([after[-1], r.action[t][:, None].float(), r.reward[t][:, None]], -1)
    r.next_state = state
    return state


def starts(c, rows):
    """Return the sequences (k, b) whose time steps are all stored. Sequence (k, b) begins at time step k * period."""
    last = (rows - c.burn_in - c.length - c.n_step) // c.period
    return [(k, b) for k in range(last + 1) for b in range(B)]


class Sequence:
    """One sequence of time steps, and its action values, recurrent states and targets for given network parameters."""

    def __init__(self, c, s, k, b, state):
        """The arguments: `s` has the stream's arrays, and `state` [2 units + 2] is the recurrent state before the first
        step."""
        self.c, self.s, self.b, self.start = c, s, b, k * c.period
        self.state, self.before = state[:-2][None], state[-2:]

    def unroll(self, p, begin, end, state, noise):
        """Unroll the network over the rows begin .. end - 1 -> q [rows, A], states [rows, 2 units]."""
        s, b = self.s, self.b
        rows = range(begin, end)
        action, reward = (
            [[self.before[i]] if t == self.start else [array[t - 1, b]] for t in rows]
            for i, array in enumerate((s.action, s.reward))
        )
        obs, first = s.frames[begin:end, b][:, None], s.age[begin:end, b][:, None] == 0
        q, states = oracle.sequence_q(p, obs, first, state, np.array(action), np.array(reward), ACTIONS, noise)
        return q[:, 0], states[:, 0]

    def trained(self, p, p_of_burn_in, noise):
        """Return the action values and recurrent states of the time steps after the burn-in.

        The network has the parameters `p_of_burn_in` during the burn-in, and `p` afterwards.
        """
        begin = self.start + self.c.burn_in
        state = self.state
        if self.c.burn_in:
            state = self.unroll(p_of_burn_in, self.start, begin, state, noise)[1][-1:]
        return self.unroll(p, begin, begin + self.c.length + self.c.n_step, state, noise)

    def value_at_cut(self, nets, t):
        """Return the value of the final observation of an episode that a time limit truncated at row t."""
        q = []
        for p, (_, states), noise in nets:
            state = states[t - self.start - self.c.burn_in][None]
            args = ([[x[t, self.b]]] for x in (self.s.action, self.s.reward))
            obs = self.s.final_frames[t, self.b][None, None]
            out = oracle.sequence_q(p, obs, np.zeros((1, 1), bool), state, *(np.array(x) for x in args), ACTIONS, noise)
            q.append(out[0][0, 0])
        return self.bootstrap(*q)

    def bootstrap(self, q_t, q):
        return oracle.unscaled(q_t[(q if self.c.double else q_t).argmax()], self.c.rescale)

    def targets(self, online, target):
        """Return the targets of the trained steps, NaN for a step whose n-step return is not in the stream.

        The arguments `online` and `target` are the pairs (parameters, noise) of the online and the target network.
        """
        c, s, b = self.c, self.s, self.b
        nets = [(p, self.trained(p, p, noise), noise) for p, noise in (target, online)]
        begin = self.start + c.burn_in
        result = np.full(c.length, np.nan)
        for i in range(c.length):
            t = begin + i
            if not oracle.is_known(s, t, b, c.n_step):
                continue
            total, discount = 0.0, 1.0
            for k in range(c.n_step):
                total += discount * oracle.clipped(s.reward[t + k, b], c.reward_clip)
                discount *= c.gamma
                if s.terminated[t + k, b]:
                    break
                if s.ended[t + k, b]:
                    total += discount * self.value_at_cut(nets, t + k)
                    break
            else:
                row = t + c.n_step - begin
                total += discount * self.bootstrap(*(q[row] for _, (q, _), _ in nets))
            result[i] = oracle.rescaled(total, c.rescale)
        return result

    def errors(self, p, p_of_burn_in, noise, targets):
        """Return target - q of each trained step whose target is not NaN."""
        q, _ = self.trained(p, p_of_burn_in, noise)
        begin = self.start + self.c.burn_in
        return [y - q[i, self.s.action[begin + i, self.b]] for i, y in enumerate(targets) if not np.isnan(y)]


def check_update(played, batch, s, states, drawn, weight, online, target, rate):
    """Compare one update on the sequences `drawn` [(k, b)] with the oracle. The list `states` has the recurrent state
    before each rollout."""
    c = played.config
    sequences = [Sequence(c, s, k, b, states[k * c.period // played.T][b]) for k, b in drawn]
    targets = [x.targets(online, target) for x in sequences]
    p0, noise = online

    def errors_of(p):
        return [x.errors(p, p0, noise, y) for x, y in zip(sequences, targets, strict=True)]

    def loss_of(p):
        losses = [sum(oracle.huber(e, c.huber) for e in errors) for errors in errors_of(p)]
        return np.mean(weight * np.array(losses))

    sizes = [np.abs(errors) for errors in errors_of(p0)]
    expected = [c.eta * e.max() + (1 - c.eta) * e.mean() if len(e) else 0.0 for e in sizes]
    got = played.check_update(batch, loss_of, rate)
    np.testing.assert_allclose(got.error.numpy(), expected, rtol=1e-3, atol=2e-5)
    return got
