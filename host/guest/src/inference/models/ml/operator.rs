//! Connects the computations of this folder to tract. One type, `Operator`, serves all of them.

use super::columns::OneHot;
use super::scores::Labels;
use super::{Classifier, Computation, OperatorRefusal, RowFunction, extractor, read};
use std::sync::Arc;
use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

/// The names of the operators that are computed here.
pub(in super::super) const OPERATORS: [&str; 9] = [
    "Imputer",
    "LinearClassifier",
    "Normalizer",
    "OneHotEncoder",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
];

/// Registers these operators with tract. They replace tract's own operators of the same names.
pub(in super::super) fn register(onnx: &mut Onnx) {
    for name in OPERATORS {
        onnx.op_register.insert(name, build);
    }
    onnx.op_register.insert(extractor::OPERATOR_NAME, extractor::build);
}

fn build(
    _context: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let computation = read(node).map_err(|refusal| match refusal {
        OperatorRefusal::Unsupported(variant) => {
            format_err!("{} {variant} is not supported", node.op_type)
        }
        OperatorRefusal::Broken(what) => format_err!("{} {what}", node.op_type),
    })?;
    let name = OPERATORS.into_iter().find(|name| *name == node.op_type).unwrap_or("Operator");
    Ok((expand(Operator { name, computation: Arc::new(computation) }), Vec::new()))
}

/// A node's computation, as a tract operator.
#[derive(Clone, Debug)]
struct Operator {
    name: &'static str,
    computation: Arc<Computation>,
}

/// Two operators are equal if they come from the same node.
impl PartialEq for Operator {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.computation, &other.computation)
    }
}

impl Eq for Operator {}

/// The operator as it occurs in the model's file.
impl Expansion for Operator {
    fn name(&self) -> StaticName {
        self.name.into()
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.outputs())
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        solver: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 1)?;
        check_output_arity(outputs, self.outputs())?;
        solver.given_2(&inputs[0].datum_type, &inputs[0].shape, move |solver, ty, shape| {
            for (output, (ty, shape)) in outputs.iter().zip(self.facts(ty, &shape)?) {
                solver.equals(&output.datum_type, ty)?;
                solver.equals(&output.shape, shape)?;
            }
            Ok(())
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        model.wire_node(prefix, self.clone(), inputs)
    }
}

impl Op for Operator {
    fn name(&self) -> StaticName {
        self.name.into()
    }

    op_as_typed_op!();
}

impl TypedOp for Operator {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(inputs.len() == 1, "{} has {} inputs; it takes one", self.name, inputs.len());
        let facts = self.facts(inputs[0].datum_type, &inputs[0].shape.to_tvec())?;
        Ok(facts.into_iter().map(|(ty, shape)| ty.fact(shape)).collect())
    }

    as_op!();
}

impl EvalOp for Operator {
    op_out_of_plan!();

    fn eval(&self, _context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let shape = input.shape();
        if let Computation::OneHot(encoder) = &*self.computation {
            return Ok(tvec!(one_hot(encoder, &input)?.into_tvalue()));
        }
        let [rows, columns] = self.matrix(shape)?;
        let x = input.cast_to::<f32>()?;
        let x = x.try_as_plain_ram()?;
        let x = x.as_slice::<f32>()?;
        let outputs = match &*self.computation {
            Computation::Rows(function) => {
                tvec!(map_rows(&**function, x, rows, columns, shape)?)
            }
            Computation::Classes(classifier, labels) => {
                classify(&**classifier, labels, x, rows, columns)?
            }
            // For a one-hot encoder, this function has already returned.
            Computation::OneHot(_) => bail!("{} does not take rows of numbers", self.name),
        };
        Ok(outputs.into_iter().map(IntoTValue::into_tvalue).collect())
    }
}

impl Operator {
    fn outputs(&self) -> usize {
        match &*self.computation {
            Computation::Rows(_) | Computation::OneHot(_) => 1,
            Computation::Classes(..) => 2,
        }
    }

    /// Returns the types and shapes of the outputs, for an input of this type and shape.
    fn facts(&self, ty: DatumType, shape: &[TDim]) -> TractResult<TVec<(DatumType, TVec<TDim>)>> {
        // `TDim` is tract's type for dimensions, which are integers.
        let is_number = ty.is_number() || ty == DatumType::TDim;
        ensure!(is_number, "{} takes numbers; found {ty:?}", self.name);
        let f32 = DatumType::F32;
        if let Computation::OneHot(encoder) = &*self.computation {
            let shape = shape.iter().cloned().chain([encoder.width().to_dim()]).collect();
            return Ok(tvec!((f32, shape)));
        }
        let (rows, columns) = match shape {
            [columns] => (1.to_dim(), columns),
            [rows, columns] => (rows.clone(), columns),
            other => bail!("{} takes rows of numbers; found {} dimensions", self.name, other.len()),
        };
        let columns = columns.to_usize()?;
        ensure!(self.takes(columns), "{} does not take {columns} columns", self.name);
        Ok(match &*self.computation {
            Computation::Rows(function) => {
                let mut shape: TVec<TDim> = shape.into();
                if let Some(last) = shape.last_mut() {
                    *last = function.width(columns).to_dim();
                }
                tvec!((f32, shape))
            }
            Computation::Classes(classifier, labels) => {
                let ty = match labels {
                    Labels::Numbers(_) => DatumType::I64,
                    Labels::Texts(_) => DatumType::String,
                };
                tvec!((ty, tvec!(rows.clone())), (f32, tvec!(rows, classifier.width().to_dim())))
            }
            Computation::OneHot(_) => tvec!(),
        })
    }

    fn takes(&self, columns: usize) -> bool {
        match &*self.computation {
            Computation::Rows(function) => function.takes(columns),
            Computation::Classes(classifier, _) => classifier.takes(columns),
            Computation::OneHot(_) => true,
        }
    }

    /// The number of rows and columns of a shape. A single row may lack the dimension of rows.
    fn matrix(&self, shape: &[usize]) -> TractResult<[usize; 2]> {
        let matrix = match shape {
            [columns] => [1, *columns],
            [rows, columns] => [*rows, *columns],
            other => bail!("{} takes rows of numbers; found the shape {other:?}", self.name),
        };
        ensure!(self.takes(matrix[1]), "{} does not take {} columns", self.name, matrix[1]);
        Ok(matrix)
    }
}

fn one_hot(encoder: &OneHot, input: &Tensor) -> TractResult<Tensor> {
    let categories = input.cast_to::<i64>()?;
    let categories = categories.try_as_plain_ram()?;
    let categories = categories.as_slice::<i64>()?;
    let mut shape: TVec<usize> = input.shape().into();
    shape.push(encoder.width());
    let mut output = Tensor::zero::<f32>(&shape)?;
    let mut plain = output.try_as_plain_ram_mut()?;
    let rows = plain.as_slice_mut::<f32>()?.chunks_exact_mut(encoder.width());
    for (category, row) in categories.iter().zip(rows) {
        ensure!(encoder.row(*category, row), "there is no category {category}");
    }
    Ok(output)
}

fn map_rows(
    function: &dyn RowFunction,
    x: &[f32],
    rows: usize,
    columns: usize,
    shape: &[usize],
) -> TractResult<Tensor> {
    let width = function.width(columns);
    let mut shape: TVec<usize> = shape.into();
    if let Some(last) = shape.last_mut() {
        *last = width;
    }
    let mut output = Tensor::zero::<f32>(&shape)?;
    let mut plain = output.try_as_plain_ram_mut()?;
    let y = plain.as_slice_mut::<f32>()?;
    for row in 0..rows {
        function.row(&x[row * columns..][..columns], &mut y[row * width..][..width]);
    }
    Ok(output)
}

fn classify(
    classifier: &dyn Classifier,
    labels: &Labels,
    x: &[f32],
    rows: usize,
    columns: usize,
) -> TractResult<TVec<Tensor>> {
    let width = classifier.width();
    let mut scores = Tensor::zero::<f32>(&[rows, width])?;
    let mut plain = scores.try_as_plain_ram_mut()?;
    let y = plain.as_slice_mut::<f32>()?;
    let classes: Vec<usize> = (0..rows)
        .map(|row| classifier.row(&x[row * columns..][..columns], &mut y[row * width..][..width]))
        .collect();
    let labels = match labels {
        Labels::Numbers(labels) => {
            tensor1(&classes.iter().map(|class| labels[*class]).collect::<Vec<_>>())
        }
        Labels::Texts(labels) => {
            tensor1(&classes.iter().map(|class| labels[*class].clone()).collect::<Vec<_>>())
        }
    };
    Ok(tvec!(labels, scores))
}
