"""A function with a gradient of its own: ReLU written by hand, checked against differences."""
import torch


class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


if __name__ == "__main__":
    x = torch.tensor([-2.0, -0.5, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
    y = MyReLU.apply(x)
    (y * torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)).sum().backward()
    print("y =", y.detach())
    print("gradient =", x.grad)
    print("gradcheck:", torch.autograd.gradcheck(MyReLU.apply, (x,)))
