import tokenizers
from dataclasses import dataclass
@dataclass
class E:
    ids: list
    n_total: int
    first_len: int
class Tokenizer:
    @classmethod
    def from_file(cls, path, *, max_tokens=None):
        t=cls(); t.t=tokenizers.Tokenizer.from_file(path); t.t.no_padding(); t.t.enable_truncation(max_tokens)
        t.w=tokenizers.Tokenizer.from_file(path); t.w.no_padding(); t.w.no_truncation(); return t
    def encode_items(self, items):
        out=[]
        for i,w in zip(self.t.encode_batch(list(items)), self.w.encode_batch(list(items))):
            out.append(E(i.ids, len(w.ids), i.type_ids.index(1) if 1 in i.type_ids else len(i.ids)))
        return out
