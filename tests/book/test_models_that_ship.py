r"""Models that ship: the frozen configurations against the library's own, the table, its figure, what the page says."""

import json
import re
from pathlib import Path

import pybtex.database
import pytest

from posenc import configs
from posenc.lab.figures import models_that_ship as figure
from posenc.lab.pages import models_that_ship as page

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "models_that_ship.md").read_text("utf-8")
INDEX = page.index()
ENTRIES = {entry["model"]: entry for entry in INDEX["models"]}
FROZEN = {name: entry for name, entry in ENTRIES.items() if "file" in entry}
ROWS = {row["model"]: row for row in page.models()}

each_entry = pytest.mark.parametrize("entry", INDEX["models"], ids=lambda entry: entry["model"])


# ------------------------------------------------------------------------------------------------------------ the files


def test_the_index_names_each_file_once_and_is_newest_first():
    files = sorted(path.stem for path in page.CONFIGS.glob("*.json") if path.stem != "index")
    assert files == sorted(entry["file"] for entry in FROZEN.values())
    assert len(ENTRIES) == len(INDEX["models"]) and len(FROZEN) >= 25
    years = [entry["year"] for entry in INDEX["models"]]
    assert years == sorted(years, reverse=True) and years[-1] <= 2018 and years[0] == 2026
    assert re.fullmatch(r"[A-Z][a-z]+ 20\d\d", INDEX["as_of"])


@each_entry
def test_a_model_has_a_source_and_says_what_was_read(entry):
    assert re.match(r"https://", entry["source"]) and entry["kind"] in ("decoder", "encoder", "encoder-decoder")
    assert entry["read"] and set(entry["read"]) <= set(INDEX["read"])
    assert ("file" in entry) != ("said" in entry)
    known = pybtex.database.parse_file(str(ROOT / "book" / "references.bib"), "bibtex").entries
    cited = {key for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", PAGE) for key in keys.split(",")}
    assert entry["cite"] and set(entry["cite"]) <= set(known) & cited


@pytest.mark.parametrize("name", FROZEN)
def test_a_file_holds_what_is_read_and_no_more(name):
    reading = page.reading(FROZEN[name]["file"])
    assert reading.unread == ()
    # gpt-oss leaves the attention factor to the code, which makes it as it was trained
    assert [fault.split()[0] for fault in reading.faults] == (["attention_factor"] if name == "gpt-oss 120B" else [])


DEFAULTS = {  # file: (configuration class, keys in which the released model is said to differ from its type's default)
    "muse-glimmer-30b": ("MuseGlimmerTextConfig", set()),
    "inkling": ("InklingTextConfig", set()),
    "deepseek-v4-flash": ("DeepseekV4Config", {"compress_ratios", "rope_scaling"}),
    "mistral-small-4": ("Mistral4Config", set()),
    "ministral-3-8b": ("Ministral3Config", set()),
    "gpt-oss-120b": ("GptOssConfig", set()),
    "modernbert-base": ("ModernBertConfig", set()),
    "deepseek-v3": ("DeepseekV3Config", {"max_position_embeddings", "rope_scaling"}),
    "smollm3-3b": ("SmolLM3Config", {"max_position_embeddings", "rope_theta"}),
    "llama-4-scout": ("Llama4TextConfig", {"max_position_embeddings", "rope_scaling"}),
    "qwen3.5-27b": (
        "Qwen3_5TextConfig",
        {"num_hidden_layers", "num_attention_heads", "max_position_embeddings", "rope_parameters"},
    ),
    "qwen3-next-80b": ("Qwen3NextConfig", {"rope_parameters"}),
    "gemma-4-31b": (
        "Gemma4TextConfig",
        {"num_hidden_layers", "num_attention_heads", "sliding_window", "max_position_embeddings"},
    ),
    "phi-3-mini-4k": ("Phi3Config", {"sliding_window"}),
    "mistral-7b": ("MistralConfig", {"max_position_embeddings"}),
    "phi-1.5": ("PhiConfig", set()),
    "llama-7b": ("LlamaConfig", set()),
    "gpt-neox-20b": ("GPTNeoXConfig", set()),
    "gpt-j-6b": ("GPTJConfig", set()),
    "t5-small": ("T5Config", set()),
    "gpt-2": ("GPT2Config", set()),
    "bert-base": ("BertConfig", set()),
}


def test_files_that_name_the_library_as_read_are_held_against_it():
    named = {entry["file"] for entry in FROZEN.values() if "transformers" in entry["read"]}
    assert named - set(DEFAULTS) == {"olmo-3-7b", "gemma-2-9b"}  # of these the library's default is another size
    assert set(DEFAULTS) <= named


@pytest.mark.parametrize("file", DEFAULTS)
def test_a_file_says_what_the_defaults_of_the_library_say(file):
    import transformers

    name, differs = DEFAULTS[file]
    frozen = json.loads((page.CONFIGS / f"{file}.json").read_text("utf-8"))
    theirs = configs.read(getattr(transformers, name)(**{key: frozen[key] for key in differs}))
    layers = theirs.layers
    if file in ("inkling", "qwen3-next-80b"):  # whose length is left out
        layers = tuple(layer._replace(trained=None, settings=layer.settings and {"trained": None}) for layer in layers)
    assert theirs.model_type == frozen["model_type"] and layers == page.reading(file).layers


# ------------------------------------------------------------------------------------------------------------ the table


def test_the_table_has_a_row_a_model_with_its_marks():
    head, _, *lines = [line.strip("| ").split(" | ") for line in page.models_table().data.splitlines()]
    assert len(lines) == len(ENTRIES) and {len(line) for line in lines} == {len(head)}
    assert "ship-nope" in next(line for line in lines if "SmolLM3" in line[0])[0]
    assert "ship-nope" not in next(line for line in lines if "Llama 2 7B" in line[0])[0]


def test_the_cells_say_what_the_layers_do():
    assert ROWS["SmolLM3"]["nope"] == "every fourth" and ROWS["SmolLM3"]["encoding"] == "RoPE and NoPE"
    assert ROWS["GPT-NeoX-20B"]["lanes"] == "first 24 of 96, half-split"
    assert ROWS["DeepSeek-V3"]["lanes"] == "last 64 of 192, interleaved"
    assert "64 fastest pairs of 512 lanes" in ROWS["Gemma 4 31B"]["lanes"]
    assert ROWS["Gemma 3 12B"]["scaling"] == "none (window); linear by 8 (full)"
    assert ROWS["Llama 4 Scout"]["scaling"].endswith("queries grow")
    assert ROWS["Muse Glimmer 30B"]["base"] == "not verified"
    assert ROWS["OLMo 3 7B"]["sight"] == "4,096 in 24 of 32; all in 8 of 32"
    assert page.often([3, 7, 11], 12) == "every fourth" and page.often([3, 7, 8], 12) == "3 of 12"


def test_the_buttons_need_no_script_and_have_their_rules():
    html, style = page.buttons().data, (ROOT / "book" / "_static" / "posenc.css").read_text("utf-8")
    assert "<script" not in html and html.count('name="ship"') == len(page.BUTTONS)
    assert html.count("checked") == 1 and 'id="ship-all" checked' in html
    for name in page.BUTTONS.keys() - {"all"}:
        assert f":has(#ship-{name}:checked)" in style and f":not(:has(.ship-{name}))" in style


# ----------------------------------------------------------------------------------------------------------- the figure


@pytest.mark.parametrize("name", figure.MODELS)
@pytest.mark.parametrize("which", [figure.MOST, figure.OTHERS])
def test_the_figure_counts_pairs_as_the_reading_does(name, which):
    layer = figure.chosen(name, which)[0]
    for length in figure.LENGTHS:
        out = figure.fates(name, which, length)
        told = figure.model(name).at(length).unseen(layer.index)
        if told is None or figure.summarizes(layer):
            continue
        assert len(out["open"]) + len(out["unseen"]) == told.unturned
        assert len(out["unseen"]) <= told.beyond
        if length != layer.trained * layer.settings.get("factor", 1):  # there the last is less than a token beyond
            assert len(out["unseen"]) == told.beyond


def test_the_strip_shows_every_layer_once():
    for name in figure.MODELS:
        shown, _ = figure.depth.fn(name, figure.MOST, 0)
        drawn = [x for trace in shown["data"] if trace["name"] in figure.KINDS for x in trace["x"]]
        assert sorted(drawn) == list(range(len(figure.model(name).layers)))
        for which in (figure.MOST, figure.OTHERS):  # what is looked at is filled: a group is one whole kind
            shown, _ = figure.depth.fn(name, which, 0)
            filled = [
                x for trace in shown["data"] if trace.get("opacity") == 1 and "width" in trace for x in trace["x"]
            ]
            assert sorted(filled) == sorted(layer.index for layer in figure.chosen(name, which))


# ------------------------------------------------------------------------------------------------- what the page says


def test_what_the_prose_concludes():
    for which in (figure.MOST, figure.OTHERS):
        assert not figure.fates("Gemma 4", which, 2**19)["unseen"]
    assert figure.fates("Llama 2", figure.MOST, 2**13)["unseen"]
    for name in ("Mistral 7B", "Qwen2.5 7B"):
        promised, trained = (int(ROWS[name][key].split()[-1].replace(",", "")) for key in ("length", "trained"))
        assert promised == 4 * trained
    recent = [row for row in page.models() if row["year"] >= 2024]
    assert {row["model"] for row in recent if "RoPE" not in row["encoding"]} == {
        "Inkling",
        "Kimi Linear",
        "Granite 4.0 H",
    }
    price = page.yarn_on_short()
    assert price["whole"] > price["frequencies"] > 0.1 and price["growth"] > 1.4
    assert page.yarn_on_short(prompt=64)["frequencies"] < 0.05


@pytest.mark.parametrize(
    "word",
    "rope_scaling rope_parameters rope_theta partial_rotary_factor position_ids cache_position rotate_half "
    "original_max_position_embeddings mrope_section".split(),
)
def test_a_word_that_people_search_for_is_there(word):
    assert word in PAGE
