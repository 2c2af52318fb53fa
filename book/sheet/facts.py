r"""The methods' cards: what each is in a few lines, for the sheet of all methods and for the chapter that teaches it.

What the package knows, a card takes from there: title, page, places, causal or not, the line that makes it. The rest
stands here, once.
"""

from typing import NamedTuple

from IPython.display import Markdown

from posenc.lab.titles import link as linked
from posenc.methods import METHODS, sizes

NOBODY = "no released model that we know of"
TURNED = r"\omega_i = b^{-2i/D}"


class Card(NamedTuple):
    r"""What a method is, each field in Markdown.

    formula: its score, or its weight; relative: whether a score depends on the offset of two positions alone; unseen:
    what training on L tokens has never shown; cost: what is learned and computed; ships: who uses it; place: where it
    enters, if at none.
    """

    formula: str
    relative: str
    unseen: str
    cost: str
    ships: str
    place: str = ""


CARDS = {
    "nope": Card(
        r"$A_{ij} = \operatorname{softmax}_j(s_{ij})$, $s_{ij} = q_i \cdot k_j / \sqrt D$",
        "reads no position; a causal mask alone tells of order",
        "more keys in one softmax",
        "nothing",
        "some layers of Llama 4 Scout {cite}`meta2025llama4` and SmolLM3 {cite}`smollm3`",
        place="nowhere",
    ),
    "sinusoidal": Card(
        r"$x_m + p_m$, with the lanes $\sin m\,\omega_i$ and $\cos m\,\omega_i$ of $p_m$, $\omega_i = b^{-2i/C}$",
        "no; a score reads each position by itself",
        "vectors that were never added",
        "nothing learned; $C$ sums a token, once a model",
        "the first transformer {cite}`vaswani2017attention`, Whisper's encoder {cite}`radford2023whisper`",
    ),
    "learned": Card(
        "$x_i + p_i$, with $p_i$ a row of a table $[N, C]$",
        "no; a score reads each position by itself",
        "untrained rows; beyond $N$ there is none",
        "$NC$ numbers learned; $C$ sums a token, once a model",
        "BERT {cite}`devlin2019bert`, GPT-2 {cite}`radford2019gpt2`, GPT-3 {cite}`brown2020gpt3`",
    ),
    "shaw": Card(
        r"$s_{ij} = q_i \cdot (k_j + a^K_{\operatorname{clip}(j - i)}) / \sqrt D$",
        "yes",
        "more keys that share the vector of the clip",
        "$(2k + 1) D$ numbers a layer, twice with `values=True`; each query times each vector",
        "Music Transformer {cite}`huang2019music`",
    ),
    "transformer_xl": Card(
        r"$s_{ij} = (q_i \cdot k_j + q_i \cdot r_{i-j} + u \cdot k_j + v \cdot r_{i-j}) / \sqrt D$, "
        r"$r_{i-j} = W_R \operatorname{PE}(i - j)$",
        "yes",
        "codes of larger distances",
        "$W_R$, $u$ and $v$ a layer; a second product for each pair",
        "XLNet {cite}`yang2019xlnet`",
    ),
    "t5": Card(
        r"$s_{ij} = q_i \cdot k_j + t_{h,\,\text{bucket}(j - i)}$, not scaled",
        "yes",
        "buckets that no key fell into; all that is far shares the last",
        "a number for each bucket and head, one table for all layers",
        "T5 {cite}`raffel2020t5`, mT5 {cite}`xue2021mt5`, UL2 {cite}`tay2023ul2`",
    ),
    "kerple": Card(
        r"$s_{ij} - r_1 \ln(1 + r_2 |i - j|)$",
        "yes",
        "larger penalties",
        "two numbers a head; a logarithm for each distance",
        NOBODY,
    ),
    "fire": Card(
        r"$s_{ij} + f\big(\psi(i - j) / \psi(\max(L', i))\big)$, $\psi(x) = \ln(c x + 1)$, $L'$ learned",
        "no; beyond the threshold $L'$ it divides by the query's position",
        "beyond $L'$ another share for the same distance; larger shares only where $L'$ exceeds $L$",
        "a small network, asked for each pair",
        NOBODY,
    ),
    "rope": Card(
        rf"$s = (R(m)\,q) \cdot (R(n)\,k) / \sqrt D$; pair $i$ turns by $m\,\omega_i$, ${TURNED}$",
        "yes, by $n - m$",
        "angles of the slow pairs",
        "nothing learned; some $6C$ operations a token and layer",
        "LLaMA {cite}`touvron2023llama`, Qwen3 {cite}`qwen2025qwen3`, gpt-oss {cite}`openai2025gptoss`, most others",
    ),
    "rope2d": Card(
        r"pair $i$ turns by $p \cdot \omega_i$; axial: one entry of $\omega_i$ is not zero; mixed: $\omega_i$ learned, "
        "for each head",
        "yes; not with tokens that have no place",
        "by index, angles of pairs that had not gone all the way round; normalized, finer steps",
        "RoPE's; mixed adds $n H D / 2$ numbers a layer",
        "axial: Pixtral, DINOv3, vision towers of Llama 4 and Qwen {cite}`wolf2020transformers`",
    ),
    "mrope": Card(
        r"pair $i$ turns by $p_a\,\omega_{ai}$, $\omega_{ai} = b^{-2i/D}$ for the axis $a$ that it is dealt to: time, "
        "row or column",
        "yes, by the offset on each axis",
        "angles of the slow pairs, on each axis",
        "RoPE's",
        "Qwen2-VL {cite}`wang2024qwen2vl`, Qwen3-VL {cite}`qwen3vl2025`",
    ),
    "liere": Card(
        r"$R(p) = \exp(\sum_a p_a A_a)$, $A_a^\top = -A_a$, in blocks of $b$",
        "if and only if the generators commute (always in blocks of $2$); else only on a line through the origin",
        "larger differences, and each place beyond the trained grid",
        "$b$ multiply-adds a lane, where RoPE takes $2$; an exponential for each block and distinct position; $n b^2$ "
        "numbers a block",
        "authors' code {cite}`ostmeier2025code`",
    ),
    "comrope": Card(
        r"$R_j(p) = \exp(u_j S_j)$, $S_j^\top = -S_j$, in blocks; $u_j$ a coordinate (AP) or $\theta_j \cdot p$ (LD)",
        "yes: the generators commute",
        "larger differences",
        "LieRE's; $b^2$ (AP) or $b^2 + n$ (LD) numbers a block",
        "authors' code {cite}`yu2025code`",
    ),
    "alibi": Card(
        r"$s_{ij} - m_h (i - j)$, $m_h = 2^{-8h/H}$ for $H$ a power of two",
        "yes",
        "larger penalties",
        "nothing learned; a sum for each pair",
        "BLOOM {cite}`bigscience2022bloom`, MPT {cite}`mosaicml2023mpt`",
    ),
    "stickbreaking": Card(
        r"$A_{ij} = \beta_{ij} \prod_{j<k<i} (1 - \beta_{ik})$, $\beta_{ij} = \sigma(z_{ij})$",
        "reads no position; the order of the keys counts",
        "longer sticks",
        "nothing learned; a running sum for each query in place of the softmax",
        "authors' models and kernel {cite}`tan2024code`",
    ),
    "cope": Card(
        r"$s_{ij} + q_i \cdot e[\min(p_{ij}, P - 1)]$, $p_{ij} = \sum_{l=j}^i \sigma(s_{il})$",
        "reads no position, so a shift changes nothing; what stands between counts",
        "counts above those trained; from $P - 1$ on one shared row",
        "$P D$ numbers a layer, or a head; $T P D$ for $z$, then a sum and a look-up for each pair",
        "x-transformers and the authors' code {cite}`wang2020xtransformers`; no large released model that we know of",
    ),
    "fox": Card(
        r"$A_{ij} = \operatorname{softmax}_j(s_{ij} + c_i - c_j)$, "
        r"$c_i = \sum_{l \le i} \log \sigma(w_f \cdot x_l + b_f)$",
        "reads no position, so a shift changes nothing; by $i - j$ alone where the gates are constant: as ALiBi",
        "no position; sums of more gates than ever in training",
        "$w_f$ and $b_f$ a head; one number a token and head in the cache",
        "authors' models and kernel {cite}`lin2025code`, flash-linear-attention {cite}`fla2024`",
    ),
    "inkling": Card(
        r"$s_{ij} + \sum_c r_{ic} B_c[i - j]$ for $0 \le i - j < E$: $n$ learned curves $B_c$ over distance, "
        r"token $i$'s share $r_{ic}$ of each",
        "yes, by a curve that the query chooses",
        "more keys beyond $E$, where the bias is zero",
        "$n E$ numbers and a map to $n$ shares a layer; a look-up for each pair",
        "the Inkling architecture in transformers {cite}`huggingface2026inkling`",
    ),
    "path": Card(
        r"$s_{ij} = \tau\, q_i^\top H_i \cdots H_{j+1} k_j$, $H_t = I - \beta_t w_t w_t^\top$",
        "reads no position, so a shift changes nothing; what stands between counts",
        r"longer products of reflections; at $\beta \le 2$ none grows",
        "$w_t$ and $\\beta_t$ by a linear map; $2 T^2 D$ more than the scores (the paper has a cheaper way)",
        "the paper's models {cite}`yang2025path`, flash-linear-attention {cite}`fla2024`",
        place="none of the four: another product in the place of $q \\cdot k$",
    ),
    "sink": Card(
        r"$A_{ij} = e^{s_{ij}} / (e^{s} + \sum_l e^{s_{il}})$; $s$, without indices, is the sink's logit, learned",
        "reads no position",
        "more keys beside the same sink",
        "one number a head",
        "gpt-oss {cite}`openai2025gptoss`, beside RoPE",
    ),
    "exposb": Card(
        r"$A_{mn} = \operatorname{softmax}_n(f(m - n)\, \hat q_m \cdot \hat k_n / \sqrt D)$, "
        r"$\hat q_m = g(m)\, w_h\, M R(m)\, q$, $M = \operatorname{diag}(c_0, \dots, c_{D-1})$, $w_h$ a number "
        "a head, learned",
        "no; the gain $g$ reads each position by itself",
        "RoPE's angles; gain and fade smaller than any in training, down to their floors",
        "RoPE's, and a factor for each lane, position and pair",
        NOBODY,
    ),
    "rse": Card(
        r"$A_{ij} = \beta_{ij} \prod_{k<j} (1 - \beta_{ik})$, "
        r"$\beta_{ij} = \sigma\big((R(i)\, q_i) \cdot (R(j)\, k_j) / \sqrt D - \lambda |i - j|\big)$",
        "yes, but for the order of the keys, which counts",
        "RoPE's angles, larger penalties, longer sticks",
        "RoPE's and a stick's; one number $\\lambda$ a layer",
        NOBODY,
    ),
}


def made(name: str) -> str:
    r"""The call that makes a method for eight heads of 64 lanes and 1,024 tokens."""
    needed = sizes(name, num_heads=8, head_dim=64, length=1024)
    return f'posenc.make("{name}"{"".join(f", {key}={size}" for key, size in needed.items())})'


def markdown(name: str, *, link: bool) -> str:
    r"""A method's card. link: whether its title leads to its chapter."""
    card, method = CARDS[name], METHODS[name]
    title, place = method.title, card.place or ", ".join(method.places)
    if method.causal_only:
        place += ", causal by default" if method.both_ways else ", causal only"
    return written(linked(name) if link else title, card, place, made(name))


def written(title: str, card: Card, place: str, line: str) -> str:
    r"""A card in Markdown. line: the call that makes what it tells of."""
    fields = {"Place": place, "Relative": card.relative, "Unseen beyond the training length $L$": card.unseen}
    fields |= {"Cost": card.cost, "Ships it": card.ships}
    lines = [card.formula, "", *(f"- **{key}**: {words}" for key, words in fields.items()), "", f"`{line}`"]
    return "\n".join([f"````{{admonition}} {title}", ":class: note method-card", "", *lines, "````", ""])


def cards(*names: str):
    r"""The cards of some methods, for their chapter."""
    return Markdown("\n".join(markdown(name, link=False) for name in names))


def sheet():
    r"""All cards, in the order of `METHODS`."""
    return Markdown("\n".join(["::::::{div} methods-sheet", *(markdown(n, link=True) for n in METHODS), "::::::"]))
