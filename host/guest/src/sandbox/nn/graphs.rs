//! The interfaces `graph` and `graph-execution-context`: loading models, and computing with them.

use super::bindings::wasi::nn::graph::{self, ExecutionTarget, GraphEncoding, HostGraph};
use super::bindings::wasi::nn::inference::{self, HostGraphExecutionContext};
use super::errors::Reported;
use super::resources::{Execution, Graph, GuestTensor};
use super::view::View;
use crate::inference::{InferenceError, LoadedModel, NnErrorCode, OwnedTensor};
use wasmtime::Result;
use wasmtime::component::Resource;

/// An input or output with its name.
type NamedTensor = (String, Resource<GuestTensor>);

impl View<'_> {
    fn push_graph(
        &mut self,
        loaded: Result<LoadedModel, InferenceError>,
    ) -> Reported<Resource<Graph>> {
        match loaded {
            Ok(model) => Ok(Ok(self.table.push(Graph(model))?)),
            Err(error) => self.refuse(error),
        }
    }

    fn push_outputs(&mut self, outputs: Vec<OwnedTensor>) -> Reported<Vec<NamedTensor>> {
        let bytes = outputs.iter().map(GuestTensor::output_bytes).fold(0, u64::saturating_add);
        if let Err(error) = self.inference.allowance.charge(bytes, "the outputs take") {
            return self.refuse(InferenceError::refused(NnErrorCode::TooLarge, error.to_string()));
        }
        let mut named = Vec::with_capacity(outputs.len());
        for output in outputs {
            let (name, tensor) = GuestTensor::of_output(output);
            named.push((name, self.table.push(tensor)?));
        }
        Ok(Ok(named))
    }
}

impl graph::Host for View<'_> {
    fn load(
        &mut self,
        builder: Vec<Vec<u8>>,
        encoding: GraphEncoding,
        target: ExecutionTarget,
    ) -> Reported<Resource<Graph>> {
        let loaded = check_builder(&builder, encoding, target)
            .and_then(|(bytes, gpu)| self.inference.models.load_bytes(bytes, gpu));
        drop(builder);
        self.push_graph(loaded)
    }

    fn load_by_name(&mut self, name: String) -> Reported<Resource<Graph>> {
        let loaded = self.inference.models.load(&name);
        self.push_graph(loaded)
    }
}

/// Returns the bytes of the model, and whether the model is for the GPU.
fn check_builder(
    builder: &[Vec<u8>],
    encoding: GraphEncoding,
    target: ExecutionTarget,
) -> Result<(&[u8], bool), InferenceError> {
    let refused = |code, text: String| Err(InferenceError::refused(code, text));
    if !matches!(encoding, GraphEncoding::Onnx | GraphEncoding::Autodetect) {
        let found = encoding_name(encoding);
        return refused(
            NnErrorCode::InvalidEncoding,
            format!(
                "the encoding is {found}, but only onnx is supported: convert the model to ONNX"
            ),
        );
    }
    let gpu = match target {
        ExecutionTarget::Cpu => false,
        ExecutionTarget::Gpu => true,
        ExecutionTarget::Tpu => {
            let text = "the target is tpu, and models run on cpu or gpu: choose one of them";
            return refused(NnErrorCode::UnsupportedOperation, text.to_owned());
        }
    };
    match builder {
        [bytes] => Ok((bytes, gpu)),
        _ => refused(
            NnErrorCode::InvalidArgument,
            format!("a model in ONNX is one list of bytes, and {} were given", builder.len()),
        ),
    }
}

fn encoding_name(encoding: GraphEncoding) -> &'static str {
    match encoding {
        GraphEncoding::Openvino => "openvino",
        GraphEncoding::Onnx => "onnx",
        GraphEncoding::Tensorflow => "tensorflow",
        GraphEncoding::Pytorch => "pytorch",
        GraphEncoding::Tensorflowlite => "tensorflowlite",
        GraphEncoding::Ggml => "ggml",
        GraphEncoding::Autodetect => "autodetect",
    }
}

impl HostGraph for View<'_> {
    fn init_execution_context(&mut self, graph: Resource<Graph>) -> Reported<Resource<Execution>> {
        let model = self.table.get(&graph)?.0.clone();
        Ok(Ok(self.table.push(Execution(model))?))
    }

    fn drop(&mut self, graph: Resource<Graph>) -> Result<()> {
        self.table.delete(graph)?;
        Ok(())
    }
}

impl inference::Host for View<'_> {}

impl HostGraphExecutionContext for View<'_> {
    /// Consumes the inputs, even if computing fails.
    fn compute(
        &mut self,
        context: Resource<Execution>,
        inputs: Vec<NamedTensor>,
    ) -> Reported<Vec<NamedTensor>> {
        let mut taken = Vec::with_capacity(inputs.len());
        for (name, tensor) in inputs {
            taken.push((name, self.table.delete(tensor)?));
        }
        let computed = compute(&self.table.get(&context)?.0, &taken);
        for (_, tensor) in &taken {
            self.inference.allowance.give_back(tensor.counted);
        }
        drop(taken);
        match computed {
            Ok(outputs) => self.push_outputs(outputs),
            Err(error) => self.refuse(error),
        }
    }

    fn drop(&mut self, context: Resource<Execution>) -> Result<()> {
        self.table.delete(context)?;
        Ok(())
    }
}

fn compute(
    model: &LoadedModel,
    inputs: &[(String, GuestTensor)],
) -> Result<Vec<OwnedTensor>, InferenceError> {
    let views = inputs.iter().map(|(name, tensor)| tensor.view(name));
    let views = views.collect::<Result<Vec<_>, _>>()?;
    model.run(&views)
}
