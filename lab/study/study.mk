# Included by the Makefile: benchmarks and studies.
.PHONY: bench study study-quick page notebook

# The last takes minutes and 0.9 GB.
TEXT ?= data/tinyshakespeare.txt
bench: train
	env -u OPENBLAS_CORETYPE ./train bench configs/dk64_scaled.ini
	@text=$(call quoted,$(TEXT)); if [ -f "$$text" ]; then \
		for config in shakespeare_cpu shakespeare_baby; do \
			echo; env -u OPENBLAS_CORETYPE ./train bench configs/$$config.ini --set data.corpus="$$text" || exit; \
		done; \
	else echo "shakespeare_cpu and shakespeare_baby need $$text: run data/get_shakespeare.sh, or say make bench TEXT=FILE"; fi

# The sweeps of lab/docs/results.md, and its tables and pictures. Stopped and started again, they are resumed.
study: train
	lab/study/study.sh
study-quick: train
	lab/study/study.sh --quick
# The pictures need lab/study/requirements.txt: make page PYTHON=...
page:
	$(PYTHON) lab/study/page.py
	$(PYTHON) lab/study/page.py --pictures

# Runs lab/docs/notebook.ipynb, whose outputs are not kept: make notebook PYTHON=... with lab/docs/requirements.txt.
notebook: train
	$(PYTHON) -c 'import nbformat, nbclient; nbclient.execute(nbformat.read("lab/docs/notebook.ipynb", 4), cwd="lab/docs")'
