"""Builds a small model of any architecture in transformers from its config class, and inputs for it.

The defaults of a config are kept, except for sizes. Widths, heads and head sizes take those of SIZES; numbers of layers,
experts and tokens shrink. Where no such model can be built, all layers and words stay; where none can then, the widths
stay as they are and the number of heads is changed, for a second size of head. Weights are random, from a fixed seed.
"""
import copy
import importlib
import inspect
import math
import pkgutil
import re

import torch
from transformers import PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES, model_type_to_module_name

# Width, heads and head size: d_k and the width grow by different factors, and heads * d_k is the width.
SIZES = ((64, 4, 16), (128, 2, 64))

WIDTH = re.compile(r"^(hidden_size|d_model|n_embd|dim|embed_dim|width|encoder_hidden_size|decoder_hidden_size|hidden_dim|"
                   r"embedding_size|word_embed_proj_dim|text_hidden_size|vision_hidden_size|out_hidden_size|emb_dim|"
                   r"projection_dim|text_embed_dim|encoder_dim|decoder_dim|output_dim|n_state|audio_hidden_size|"
                   r"out_dim|cross_attention_hidden_size|mm_hidden_size|backbone_hidden_size|conv_dim_)$")
HEADS = re.compile(r"^(num_attention_heads|n_head|n_heads|num_heads|attention_heads|encoder_attention_heads|"
                   r"decoder_attention_heads|heads|num_key_value_heads|num_kv_heads|n_head_kv|kv_heads|"
                   r"encoder_num_attention_heads|decoder_num_attention_heads|decoder_num_key_value_heads|num_query_heads|"
                   r"encoder_num_key_value_heads|swa_num_attention_heads|swa_num_key_value_heads|num_global_key_value_heads|"
                   r"linear_num_key_heads|linear_num_value_heads|index_n_heads|swa_num_kv_heads|kv_n_heads)$")
HEAD_SIZE = re.compile(r"^(head_dim|d_kv|attention_head_dim|kv_channels|head_size|global_head_dim|swa_head_dim|v_head_dim|"
                       r"linear_key_head_dim|linear_value_head_dim|attention_head_size|d_head|swa_v_head_dim)$")
LAYERS = re.compile(r"^(num_hidden_layers|n_layer|n_layers|num_layers|layers|encoder_layers|decoder_layers|depth|"
                    r"num_decoder_layers|num_encoder_layers|encoder_num_hidden_layers|decoder_num_hidden_layers)$")
INNER = re.compile(r"^(intermediate_size|d_ff|ffn_dim|n_inner|encoder_ffn_dim|decoder_ffn_dim|ffn_hidden_size|"
                   r"moe_intermediate_size|shared_expert_intermediate_size|expert_ffn_hidden_size|mlp_hidden_size|"
                   r"dense_intermediate_size|intermediate_size_mlp|mlp_dim|d_inner|shared_intermediate_size|"
                   r"moe_shared_expert_intermediate_size|inner_dim)$")
EXPERTS = re.compile(r"^(num_experts|n_routed_experts|num_local_experts|moe_num_experts|n_experts|num_routed_experts)$")
CHOSEN = re.compile(r"^(num_experts_per_tok|num_experts_per_token|moe_topk|top_k_experts|moe_top_k|moe_k|experts_per_token)$")
TOKEN = re.compile(r"(_token_id|_token_index|_token_ids|_id|_index)$")
PICTURES = re.compile("vl|omni|4v|ocr")  # models whose rotation has a section for time, height and width
WORDS = 1000
LARGEST = 250_000_000  # parameters of a model that is run


def layer_kinds(config):
    """Returns how many of the first layers have every kind of layer that the default model has, at most 12."""
    kinds = config.get("layer_types") or config.get("layers_block_type") or config.get("no_rope_layers")
    if not isinstance(kinds, list) or not kinds:
        return 4
    seen = set(map(str, kinds))
    least = next(n for n in range(1, len(kinds) + 1) if set(map(str, kinds[:n])) == seen)
    return min(max(4, least), 12)


def shrink(config, size, few):
    """Changes the sizes of a config that is a dict, and those of its parts: with few, also layers and words."""
    width, heads, d_k = size
    layers = layer_kinds(config) if few else math.inf
    before = max([value for key, value in config.items() if LAYERS.match(key) and type(value) is int], default=0)
    old_head = config.get("head_dim")
    if not old_head and type(config.get("hidden_size")) is int and type(config.get("num_attention_heads")) is int:
        old_head = config["hidden_size"] // max(1, config["num_attention_heads"])
    rotated = "head_dim" in config and config["head_dim"] == config.get("qk_rope_head_dim")
    turned = d_k // 2 if config.get("qk_rope_head_dim") else d_k
    old_turned = config.get("qk_rope_head_dim") or old_head
    old_width = config.get("hidden_size")
    for key, value in list(config.items()):
        if isinstance(value, dict) and value.get("model_type") is not None:
            shrink(value, size, few)
            continue
        if key in ("rope_parameters", "rope_scaling") and isinstance(value, dict):
            if PICTURES.search(config.get("model_type") or "") and "rope_type" in value:
                value.setdefault("mrope_section", [16, 24, 24])
            scale_sections(value, old_turned, turned)
        if isinstance(value, list) and before > layers and len(value) == before:
            config[key] = value[:layers]
        if key == "mrope_section" and isinstance(value, list):
            config[key] = sections(value, turned // 2)
        if key == "per_layer_config" and isinstance(value, dict):
            config[key] = {layer: part for layer, part in value.items() if int(layer) < min(before, layers)}
            for part in config[key].values():
                shrink(part, size, False)
        if key == "head_dim" and value is None:
            config[key] = d_k
        if type(value) is not int or value <= 0:
            continue
        if WIDTH.match(key):
            config[key] = width
        elif HEADS.match(key):
            config[key] = heads
        elif key == "head_dim" and rotated:
            config[key] = d_k // 2  # in latent attention the part that is rotated
        elif HEAD_SIZE.match(key):
            config[key] = d_k
        elif LAYERS.match(key):
            config[key] = min(value, layers)
        elif INNER.match(key):
            config[key] = 2 * width
        elif EXPERTS.match(key):
            config[key] = min(value, 4)
        elif CHOSEN.match(key):
            config[key] = min(value, 2)
        elif key == "image_size" and type(config.get("patch_size")) is int:
            config[key] = min(value, 8 * config["patch_size"])
        elif key in ("n_group", "topk_group", "num_expert_group"):
            config[key] = 1
        elif key in ("q_lora_rank", "kv_lora_rank"):
            config[key] = 32
        elif key in ("qk_nope_head_dim", "qk_rope_head_dim"):
            config[key] = d_k // 2
        elif key == "qk_head_dim":
            config[key] = d_k
        elif key in ("rotary_dim",):
            config[key] = min(value, d_k)
        elif value == old_width and key.endswith(("_size", "_dim", "_width", "_channels")):
            config[key] = width
    if few:
        fewer_words(config)


def fewer_words(config):
    """Shrinks the vocabulary, and moves the ids of special tokens into it."""
    spare = WORDS - 1
    for key, value in list(config.items()):
        if "vocab_size" in key and type(value) is int:
            config[key] = min(value, WORDS)
        elif TOKEN.search(key) and type(value) is int and value >= WORDS:
            config[key] = spare
            spare -= 1
        elif TOKEN.search(key) and isinstance(value, list) and any(type(one) is int and one >= WORDS for one in value):
            config[key] = [spare if one >= WORDS else one for one in value]
            spare -= 1
        elif key == "cutoffs" and isinstance(value, list):
            config[key] = [100, 200, 300]


def sections(parts, total):
    """Returns parts in the same proportions whose sum is this."""
    scaled = [max(1, part * total // sum(parts)) for part in parts]
    scaled[-1] += total - sum(scaled)
    return scaled


def scale_sections(rope, old, new):
    for name in ("mrope_section", "xdrope_section"):
        if isinstance(rope.get(name), list) and old:
            total = sum(rope[name]) * new // old
            rope[name] = sections(rope[name], max(len(rope[name]), total))
    for part in rope.values():
        if isinstance(part, dict):
            scale_sections(part, old, new)


def only_heads(config, factor):
    """Leaves widths as they are and changes the heads' numbers by a factor; layers and words shrink."""
    before = max([value for key, value in config.items() if LAYERS.match(key) and type(value) is int], default=0)
    for key, value in list(config.items()):
        if isinstance(value, dict) and value.get("model_type") is not None:
            only_heads(value, factor)
        elif HEADS.match(key) and type(value) is int:
            config[key] = max(1, int(value * factor))
        elif HEADS.match(key) and isinstance(value, (list, tuple)) and all(type(one) is int for one in value):
            config[key] = [max(1, int(one * factor)) for one in value]
        elif HEAD_SIZE.match(key) and type(value) is int:
            config[key] = int(value / factor)
        elif LAYERS.match(key) and type(value) is int:
            config[key] = min(value, 2)
        elif isinstance(value, list) and before > 2 and len(value) == before:
            config[key] = value[:2]
        elif key in ("depths",) and isinstance(value, (list, tuple)):
            config[key] = [1 for _ in value]
    fewer_words(config)


def difference(default, changed):
    """Returns what was changed, so that what a config derives from its sizes is derived again."""
    rest = {}
    for key, value in changed.items():
        before = default.get(key)
        if isinstance(value, dict) and isinstance(before, dict) and value.get("model_type") is not None:
            rest[key] = difference(before, value) | {"model_type": value["model_type"]}
        elif value != before:
            rest[key] = value
    return rest


def config_class(name):
    return CONFIG_MAPPING[name]


def model_classes(name):
    """Returns the classes that a config can be made into: that of the table first, then others of its folder."""
    kind = config_class(name)
    found = []
    for table in (modeling_auto.MODEL_MAPPING, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING):
        with_lookup = table.get(kind, None)
        if with_lookup is not None:
            found += list(with_lookup) if isinstance(with_lookup, (list, tuple)) else [with_lookup]
    package = importlib.import_module(kind.__module__.rsplit(".", 1)[0])
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("modeling_"):
            continue
        code = importlib.import_module(f"{package.__name__}.{module.name}")
        own = [one for one in vars(code).values() if inspect.isclass(one) and issubclass(one, PreTrainedModel)
               and one.__module__ == code.__name__ and getattr(one, "config_class", None) is kind]
        own = [one for one in own if not one.__name__.endswith("PreTrainedModel")]
        found += sorted(own, key=lambda one: (len(one.__name__), one.__name__))
    return list(dict.fromkeys(found))


def make(name, size, attention):
    """Yields models of the three ways to shrink, of each class; what cannot be built is an error, which is yielded too."""
    kind = config_class(name)
    default = kind().to_dict()
    which = SIZES.index(size)
    for way in ("widths", "widths, all layers", "heads"):
        for cls in model_classes(name)[:3]:
            changed = copy.deepcopy(default)
            try:
                if way.startswith("widths"):
                    shrink(changed, size, way == "widths")
                else:
                    only_heads(changed, 1 if which == 0 else 2)
                try:
                    config = kind.from_dict(difference(default, changed))
                except Exception:  # what is derived is derived from another size
                    config = kind.from_dict(changed)
                with torch.device("meta"):
                    numbers = sum(parameter.numel() for parameter in cls._from_config(config).parameters())
                if numbers > LARGEST:
                    raise ValueError(f"{numbers} parameters")
                torch.manual_seed(1)
                model = cls._from_config(config, attn_implementation=attention, dtype=torch.float32)
                yield way, model.eval()
            except Exception as error:  # whatever a config or a model raises is the reason that the table has
                yield way, error


def dig(config, *keys, default=None):
    """Returns the first of these members that the config or one of its parts has."""
    parts = [config] + [part for part in vars(config).values() if hasattr(part, "to_dict")]
    for part in parts:
        for key in keys:
            value = getattr(part, key, None)
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
                value = value[0]
            if isinstance(value, int) and value > 0:
                return value
    return default


def inputs(model):
    """Yields inputs to try, the likelier ones first."""
    config = model.config
    names = set(inspect.signature(model.forward).parameters)
    torch.manual_seed(2)
    tokens = torch.randint(10, max(11, min(90, dig(config, "vocab_size", default=90))), (2, 12))
    channels = dig(config, "num_channels", "in_channels", "in_chans", default=3)
    side = dig(config, "image_size", "input_size", "img_size", default=64)
    mel = dig(config, "input_dim", "num_mel_bins", "feature_size", "num_mel_features", "n_mels", "mel_bins", "audio_channels", default=80)
    long = dig(config, "max_source_positions", "max_length", default=100)
    width = dig(config, "hidden_size", "d_model", "n_embd", "dim", default=64)
    several = []
    if "input_ids" in names:
        several.append({"input_ids": tokens})
    if "pixel_values" in names:
        several += [{"pixel_values": torch.randn(2, channels, one, one)} for one in dict.fromkeys((side, 64, 224, 512))]
    if "pixel_values_videos" in names or "pixel_values" in names:
        frames = dig(config, "num_frames", "frames_per_clip", default=8)
        key = "pixel_values_videos" if "pixel_values_videos" in names else "pixel_values"
        several.append({key: torch.randn(1, frames, channels, side, side)})
    if "input_values" in names:
        several += [{"input_values": torch.randn(2, 4000)}, {"input_values": torch.randn(2, 1, 4000)},
                    {"input_values": torch.randn(2, long, mel)}, {"input_values": torch.randn(2, 12, mel)}]
    if "input_features" in names:
        several += [{"input_features": torch.randn(2, mel, 2 * long)}, {"input_features": torch.randn(2, 100, mel)},
                    {"input_features": torch.randn(2, mel, 100)}, {"input_features": torch.randn(2, 1, 1001, 64)},
                    {"input_features": torch.randn(2, 96, 160)}]
    grids = [one for one in names if one.endswith("grid_thw")]
    if grids and "input_ids" not in names:
        patch = dig(config, "patch_size", default=14) ** 2 * channels * dig(config, "temporal_patch_size", default=1)
        first = next(iter(inspect.signature(model.forward).parameters))
        several += [{first: torch.randn(16, one), grids[0]: torch.tensor([[1, 4, 4]])} for one in (patch, 2 * patch, width)]
    if "past_values" in names:
        context = dig(config, "context_length", default=32)
        several.append({"past_values": torch.randn(2, context, dig(config, "num_input_channels", default=1))})
        past = context + max(getattr(config, "lags_sequence", None) or [0])
        several.append({"past_values": torch.randn(2, past), "past_observed_mask": torch.ones(2, past),
                        "past_time_features": torch.randn(2, past, getattr(config, "num_time_features", 0) or 0),
                        "future_values": torch.randn(2, dig(config, "prediction_length", default=8)),
                        "future_time_features": torch.randn(2, dig(config, "prediction_length", default=8),
                                                            getattr(config, "num_time_features", 0) or 0)})
        several.append({"past_values": [torch.randn(64), torch.randn(64)], "freq": [0, 0]})
        several.append({"past_values": [torch.randn(64), torch.randn(64)]})
    if "inputs_embeds" in names:
        several.append({"inputs_embeds": torch.randn(2, 12, width)})
    if "hidden_states" in names:
        several += [{"hidden_states": torch.randn(2, 16, width)}, {"hidden_states": torch.randn(16, width)}]
    if "query_embeds" in names:
        several.append({"query_embeds": torch.randn(2, 12, width), "encoder_hidden_states": torch.randn(
            2, 12, dig(config, "encoder_hidden_size", default=width))})
    if "inputs" in names:
        several.append({"inputs": torch.randn(2, 12, dig(config, "d_model", default=width))})
    if "input_ids" in names and "pixel_values" in names:
        several += [{"input_ids": tokens, "pixel_values": torch.randn(2, channels, one, one)}
                    for one in dict.fromkeys((side, 64, 224))]
    if "input_ids" in names and "bbox" in names:
        box = torch.tensor([1, 2, 30, 40]).expand(2, 12, 4)
        several += [{"input_ids": tokens, "bbox": box}]
        several += [{"input_ids": tokens, "bbox": box, "pixel_values": torch.randn(2, channels, side, side)}]
    if "input_ids" in names and "input_features" in names:
        several.append({"input_ids": tokens, "input_features": torch.randn(2, 1, 1001, 64)})
    if "input_ids" in names and "encoder_hidden_states" in names:
        several.append({"input_ids": tokens, "encoder_hidden_states": torch.randn(2, 12, dig(
            config, "encoder_hidden_size", "cross_attention_hidden_size", default=width))})
    needed = [name for name, parameter in inspect.signature(model.forward).parameters.items()
              if parameter.default is parameter.empty and name.endswith("mask")]
    for one in several:
        shape = next(iter(one.values()))[0].shape[:1]
        one.update({name: torch.ones(2, *shape, dtype=torch.long) for name in needed})
        if "decoder_input_ids" in names:
            yield {**one, "decoder_input_ids": tokens.flip(1)}
        yield one


def head_widths(model):
    """Returns the widths that a config names, for a constant that is the root of one."""
    config = model.config
    return dig(config, "hidden_size", "d_model", "n_embd", "dim", "embed_dim", default=math.nan)


def folder(name):
    return model_type_to_module_name(name)
